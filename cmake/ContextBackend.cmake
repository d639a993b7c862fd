# CONTEXT_BACKEND: which context backend the runtime runs on, what it needs, and what to do where that is missing.
# Sets
#   CONTEXT_BACKEND_TARGET      the suffix of its targets: ASM, Boost or Ucontext
#   CONTEXT_BACKEND_DEFINITION  what selects it in Swift's sources (as in Package.swift); empty for the default
#   CONTEXT_BACKENDS_BUILT      the suffixes of all backends that can be compiled here
#   BOOST_CONTEXT_LIBRARY       where Boost is chosen

set(CONTEXT_BACKEND asm CACHE STRING "The context backend: asm, boost or ucontext")
set_property(CACHE CONTEXT_BACKEND PROPERTY STRINGS asm boost ucontext)

if(CONTEXT_BACKEND STREQUAL "asm")
  set(CONTEXT_BACKEND_TARGET ASM)
  set(CONTEXT_BACKEND_DEFINITION)
elseif(CONTEXT_BACKEND STREQUAL "boost")
  set(CONTEXT_BACKEND_TARGET Boost)
  set(CONTEXT_BACKEND_DEFINITION CONTEXT_BACKEND_BOOST)
elseif(CONTEXT_BACKEND STREQUAL "ucontext")
  set(CONTEXT_BACKEND_TARGET Ucontext)
  set(CONTEXT_BACKEND_DEFINITION CONTEXT_BACKEND_UCONTEXT)
else()
  message(FATAL_ERROR "Unknown context backend '${CONTEXT_BACKEND}'. "
    "Choose one of the three: -DCONTEXT_BACKEND=asm, -DCONTEXT_BACKEND=boost or -DCONTEXT_BACKEND=ucontext.")
endif()

# Boost's two symbols are declared by hand and Boost's switch is called, not inlined: compiling that backend needs
# nothing of Boost's. The assembly has a file per architecture.
set(CONTEXT_BACKENDS_BUILT Boost Ucontext)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64|aarch64|arm64)$")
  list(PREPEND CONTEXT_BACKENDS_BUILT ASM)
elseif(CONTEXT_BACKEND STREQUAL "asm")
  message(FATAL_ERROR "There is no assembly for '${CMAKE_SYSTEM_PROCESSOR}'. "
    "Choose another backend: -DCONTEXT_BACKEND=boost (faster) or -DCONTEXT_BACKEND=ucontext (needs nothing).")
else()
  message(STATUS "ContextASM is left out: there is no assembly for '${CMAKE_SYSTEM_PROCESSOR}'")
endif()

if(CONTEXT_BACKEND STREQUAL "boost")
  find_library(BOOST_CONTEXT_LIBRARY boost_context)
  if(NOT BOOST_CONTEXT_LIBRARY)
    message(FATAL_ERROR "The Boost backend is chosen, but libboost_context is not installed. "
      "Install it (Debian, Ubuntu: apt-get install libboost-context-dev; Fedora: dnf install boost-devel), "
      "or choose another backend: -DCONTEXT_BACKEND=asm. "
      "A library in another place: -DBOOST_CONTEXT_LIBRARY=<its path>.")
  endif()
endif()
