# SPDX-License-Identifier: Apache-2.0

# One library for each folder in Sources, as SwiftPM would make it of the same folder.

set(CMAKE_Swift_MODULE_DIRECTORY ${PROJECT_BINARY_DIR}/modules)

# What SwiftPM passes too. Frame pointers are for debuggers and profilers, whose fast walks follow them.
add_library(coroutine_options INTERFACE)
target_compile_options(coroutine_options INTERFACE
  "$<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-fno-omit-frame-pointer>"
  # It does not know an attribute that is for sanitizers, nor that Swift's metadata begin before what their symbol names.
  "$<$<C_COMPILER_ID:GNU>:$<$<COMPILE_LANGUAGE:C>:-Wno-attributes;-Wno-array-bounds>>"
  "$<$<COMPILE_LANGUAGE:Swift>:SHELL:-swift-version 6 -package-name coroutine -Xcc -fno-omit-frame-pointer>")

# CMake hands all files of a target to one call of the compiler and asks for its incremental mode, which then fails on
# the second build: whole modules instead. Ninja expects an object per file (what -num-threads is for), each of them
# younger than the sources (so nothing may be kept because it would come out the same).
target_compile_options(coroutine_options INTERFACE
  "$<$<COMPILE_LANGUAGE:Swift>:SHELL:-wmo -num-threads 2 -Xfrontend -disable-incremental-llvm-codegen>")
foreach(rule CREATE_STATIC_LIBRARY CREATE_SHARED_LIBRARY LINK_EXECUTABLE)
  string(REPLACE " -incremental " " " CMAKE_Swift_${rule} "${CMAKE_Swift_${rule}}")
endforeach()
if(WARNINGS_AS_ERRORS)
  target_compile_options(coroutine_options INTERFACE
    "$<$<COMPILE_LANGUAGE:C>:-Werror>" "$<$<COMPILE_LANGUAGE:Swift>:-warnings-as-errors>")
endif()
if(COROUTINE_TESTS)
  # Tests see internal declarations, by `@testable import`.
  target_compile_options(coroutine_options INTERFACE "$<$<COMPILE_LANGUAGE:Swift>:-enable-testing>")
endif()

# coroutine_c_library(<name> [FOLDER <folder>] [LINK <library>...] [DEFINE <definition>...]): C and assembly in Sources, or in
# another folder, and a module map so that Swift can import <name>.
function(coroutine_c_library name)
  cmake_parse_arguments(PARSE_ARGV 1 library "" "FOLDER" "LINK;DEFINE")
  if(NOT library_FOLDER)
    set(library_FOLDER Sources)
  endif()
  set(folder ${PROJECT_SOURCE_DIR}/${library_FOLDER}/${name})
  set(include ${folder}/include)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.c ${folder}/*.S)

  # The rules are SwiftPM's: an own module map, else a header of the module's name, else all headers. Installed, the map lies
  # beside the headers, where Swift finds it.
  set(module_map ${PROJECT_BINARY_DIR}/module-maps/${name}/module.modulemap)
  set(installed_module_map ${PROJECT_BINARY_DIR}/module-maps/${name}/installed/module.modulemap)
  set(headers)
  if(EXISTS ${include}/module.modulemap)
    set(module_map ${include}/module.modulemap)
    set(installed_module_map ${module_map})
  elseif(EXISTS ${include}/${name}.h)
    set(headers "umbrella header \"${include}/${name}.h\"")
    set(installed_headers "umbrella header \"${name}.h\"")
  else()
    set(headers "umbrella \"${include}\"")
    set(installed_headers "umbrella \".\"")
  endif()
  if(headers)
    set(content "module @name@ {\n  @headers@\n  export *\n}\n")
    file(CONFIGURE OUTPUT ${module_map} CONTENT "${content}" @ONLY)
    set(headers "${installed_headers}")
    file(CONFIGURE OUTPUT ${installed_module_map} CONTENT "${content}" @ONLY)
  endif()

  # An archive, which is not needed where there are headers only. Where the Swift libraries are shared ones, the code is in
  # the one that has this module as its CODE: an archive would be in each of those that use it, with its variables.
  set(scope INTERFACE)
  set(code ${name})
  if(NOT sources)
    add_library(${name} INTERFACE)
  elseif(BUILD_SHARED_LIBS)
    add_library(${name} INTERFACE)
    set(code ${name}Code)
    add_library(${code} STATIC ${sources})
    target_link_libraries(${code} PRIVATE ${name})
  else()
    add_library(${name} STATIC ${sources})
    set(scope PUBLIC)
  endif()
  if(sources)
    set_target_properties(${code} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_definitions(${code} PRIVATE ${library_DEFINE})
    target_link_libraries(${code} PRIVATE $<BUILD_INTERFACE:coroutine_options>)
  endif()
  add_library(Coroutine::${name} ALIAS ${name})
  target_include_directories(${name} ${scope}
    $<BUILD_INTERFACE:${include}> $<INSTALL_INTERFACE:${COROUTINE_INSTALL_HEADERS}/${name}>)
  coroutine_link(${name} ${scope} ${library_LINK})
  target_compile_options(${name} INTERFACE
    "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:Swift>:SHELL:-Xcc -fmodule-map-file=${module_map}>>")
  if(COROUTINE_INSTALL AND library_FOLDER STREQUAL "Sources")
    coroutine_install_library(${name})
    coroutine_install_headers(${name} ${include} ${installed_module_map})
  endif()
endfunction()

# coroutine_link(<name> <scope> <library>...): what was found by its path is linked by its name where this is installed.
function(coroutine_link name scope)
  foreach(library IN LISTS ARGN)
    if(IS_ABSOLUTE "${library}")
      cmake_path(GET library STEM file)
      string(REGEX REPLACE "^lib" "" file "${file}")
      target_link_libraries(${name} ${scope} $<BUILD_INTERFACE:${library}> $<INSTALL_INTERFACE:${file}>)
    else()
      target_link_libraries(${name} ${scope} ${library})
    endif()
  endforeach()
endfunction()

# coroutine_swift_library(<name> [CODE <C module>...] [LINK <target>...] [DEFINE <definition>...] [FEATURES <upcoming feature>...])
function(coroutine_swift_library name)
  cmake_parse_arguments(PARSE_ARGV 1 library "" "" "CODE;LINK;DEFINE;FEATURES")
  list(APPEND library_LINK ${library_CODE})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/Sources/${name}/*.swift)

  # CMake orders a static library behind those that it imports, but does not build it again when they change, and Swift
  # inlines across modules. So there is one more source, which is touched whenever an import changes, a C header too.
  set(imports ${PROJECT_BINARY_DIR}/imports/${name}Imports.swift)
  set(headers)
  foreach(target IN LISTS library_LINK)
    file(GLOB_RECURSE target_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/Sources/${target}/include/*.h)
    list(APPEND headers ${target_headers})
  endforeach()
  add_custom_command(OUTPUT ${imports} COMMAND ${CMAKE_COMMAND} -E touch ${imports}
    DEPENDS ${library_LINK} ${headers} COMMENT "Imports of ${name}" VERBATIM)

  add_library(${name} ${sources} ${imports})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  add_library(Coroutine::${name} ALIAS ${name})
  target_include_directories(${name} INTERFACE
    $<BUILD_INTERFACE:${CMAKE_Swift_MODULE_DIRECTORY}> $<INSTALL_INTERFACE:${COROUTINE_INSTALL_MODULES}>)
  target_compile_definitions(${name} PRIVATE ${library_DEFINE})
  coroutine_enable(${name} ${library_FEATURES})
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:coroutine_options> PUBLIC ${library_LINK})
  coroutine_touch_module(${name})
  if(BUILD_SHARED_LIBS)
    foreach(module IN LISTS library_CODE)
      # All of it, used here or not. (Objects from elsewhere are left out by CMake where it links Swift.)
      target_link_options(${name} PRIVATE
        "SHELL:-Xlinker --whole-archive $<TARGET_FILE:${module}Code> -Xlinker --no-whole-archive")
      set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS $<TARGET_FILE:${module}Code>)
      add_dependencies(${name} ${module}Code)
    endforeach()
  endif()
  if(COROUTINE_INSTALL)
    coroutine_install_library(${name})
    coroutine_install_swift_module(${name})
  endif()
endfunction()

function(coroutine_enable name)  # the upcoming features after the name
  foreach(feature IN LISTS ARGN)
    target_compile_options(${name} PRIVATE "SHELL:-enable-upcoming-feature ${feature}")
  endforeach()
endfunction()

# The compiler leaves a module file alone that it would write the same again: to Ninja it then stays out of date.
function(coroutine_touch_module name)
  add_custom_command(TARGET ${name} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_Swift_MODULE_DIRECTORY}/${name}.swiftmodule)
endfunction()
