# SPDX-License-Identifier: Apache-2.0

# CONTEXT_BACKEND: which context backend the runtime runs on, what it needs, and what to do where that is missing.
# Sets
#   CONTEXT_BACKEND_TARGET      the suffix of its targets: a name of Package.swift's list
#   CONTEXT_BACKEND_DEFINITION  what selects it in Swift's sources (as in Package.swift); empty for the default
#   CONTEXT_BACKENDS_BUILT      the suffixes of all backends that can be compiled here
#   CONTEXT_BACKENDS_LINKED     those of them that can be linked, too: all but those whose library is not chosen
#   CONTEXT_BACKEND_LIBRARY     the path of the library that it needs, if it needs one

# The list of backends is in Package.swift. Here their names are in small letters, as options of CMake are.
set(backends)
set(choices)
set(with_library)
file(STRINGS ${PROJECT_SOURCE_DIR}/Package.swift lines REGEX "name: \"[A-Za-z]+\", purpose: | library: \"")
foreach(line IN LISTS lines)
  if(line MATCHES "name: \"([A-Za-z]+)\", purpose: ")
    set(name ${CMAKE_MATCH_1})
    string(TOLOWER ${name} choice)
    list(APPEND backends ${name})
    list(APPEND choices ${choice})
  endif()
  # On the same line, or on one of its own.
  if(line MATCHES " library: \"([^\"]*)\"")
    list(APPEND with_library ${name})
    set(library_of_${name} ${CMAKE_MATCH_1})
  endif()
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/Package.swift)
list(JOIN choices ", " choices_in_words)
list(GET choices 0 default)

set(CONTEXT_BACKEND ${default} CACHE STRING "The context backend: ${choices_in_words}")
set_property(CACHE CONTEXT_BACKEND PROPERTY STRINGS ${choices})

list(FIND choices "${CONTEXT_BACKEND}" chosen)
if(chosen EQUAL -1)
  message(FATAL_ERROR "Unknown context backend '${CONTEXT_BACKEND}'. Choose by -DCONTEXT_BACKEND=: ${choices_in_words}.")
endif()
list(GET backends ${chosen} CONTEXT_BACKEND_TARGET)
set(CONTEXT_BACKEND_DEFINITION)
if(NOT chosen EQUAL 0)
  string(TOUPPER "CONTEXT_BACKEND_${CONTEXT_BACKEND_TARGET}" CONTEXT_BACKEND_DEFINITION)
endif()

# Boost's two symbols are declared by hand and Boost's switch is called, not inlined: compiling that backend needs
# nothing of Boost's. Assembly is there for these processors; elsewhere a backend that consists of it is left out.
set(CONTEXT_BACKENDS_BUILT ${backends})
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64|aarch64|arm64)$")
  foreach(backend IN LISTS backends)
    file(GLOB assembly ${PROJECT_SOURCE_DIR}/Sources/CCoroutineContext${backend}/*.S)
    if(NOT assembly)
      continue()
    endif()
    if(backend STREQUAL CONTEXT_BACKEND_TARGET)
      message(FATAL_ERROR "There is no assembly for '${CMAKE_SYSTEM_PROCESSOR}'. "
        "Choose another backend: -DCONTEXT_BACKEND=boost (faster) or -DCONTEXT_BACKEND=ucontext (needs nothing).")
    endif()
    list(REMOVE_ITEM CONTEXT_BACKENDS_BUILT ${backend})
    message(STATUS "Context${backend} is left out: there is no assembly for '${CMAKE_SYSTEM_PROCESSOR}'")
  endforeach()
endif()

if(library_of_${CONTEXT_BACKEND_TARGET})
  set(library ${library_of_${CONTEXT_BACKEND_TARGET}})
  string(TOUPPER ${library}_LIBRARY library_path)  # BOOST_CONTEXT_LIBRARY, for example
  find_library(${library_path} ${library})
  if(NOT ${library_path})
    string(REPLACE _ - package lib${library}-dev)
    message(FATAL_ERROR "The ${CONTEXT_BACKEND_TARGET} backend is chosen, but lib${library} is not installed. "
      "Install it (Debian, Ubuntu: apt-get install ${package}), or choose another backend: -DCONTEXT_BACKEND=${default}. "
      "A library in another place: -D${library_path}=<its path>.")
  endif()
  set(CONTEXT_BACKEND_LIBRARY ${${library_path}})
endif()

set(CONTEXT_BACKENDS_LINKED ${CONTEXT_BACKENDS_BUILT})
list(REMOVE_ITEM with_library ${CONTEXT_BACKEND_TARGET})
list(REMOVE_ITEM CONTEXT_BACKENDS_LINKED ${with_library})
