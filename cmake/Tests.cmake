# SPDX-License-Identifier: Apache-2.0

# The tests, by Swift Testing: one program for each folder in Tests, which ctest runs.

# The toolchain's testing macros lie in a folder of their own in some toolchains, among the other plugins in others.
cmake_path(GET CMAKE_Swift_COMPILER PARENT_PATH toolchain)
find_path(SWIFT_TESTING_PLUGINS libTestingMacros.so
  PATHS ${toolchain}/../lib/swift/host/plugins/testing ${toolchain}/../lib/swift/host/plugins
  NO_DEFAULT_PATH)
if(NOT SWIFT_TESTING_PLUGINS)
  message(FATAL_ERROR "The tests need Swift Testing, and libTestingMacros.so is not where the toolchain of "
    "${CMAKE_Swift_COMPILER} has it. "
    "Say where: -DSWIFT_TESTING_PLUGINS=<folder>, or go without: -DCOROUTINE_TESTS=OFF.")
endif()

# The entry point that SwiftPM too gives to a program of tests. Exit tests run this program again.
set(COROUTINE_TEST_MAIN ${PROJECT_BINARY_DIR}/tests/Main.swift)
file(CONFIGURE OUTPUT ${COROUTINE_TEST_MAIN} CONTENT [[
import Testing

@main
struct Main {
  static func main() async {
    await Testing.__swiftPMEntryPoint() as Never
  }
}
]])

# coroutine_test(<name> [LINK <target>...] [DEFINE <definition>...] [FEATURES <upcoming feature>...])
# A program that tests run, made of the Swift files in Tests/<name>.
function(coroutine_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "" "LINK;FEATURES")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/Tests/${name}/*.swift)
  add_executable(${name} ${sources})
  coroutine_enable(${name} ${test_FEATURES})
  target_link_libraries(${name} PRIVATE coroutine_options ${test_LINK})
  set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)
  coroutine_touch_module(${name})
endfunction()

# coroutine_test_library(<name> [LINK <target>...] [FEATURES <upcoming feature>...])
# What several programs of tests share, made of the Swift files in Tests/<name>.
function(coroutine_test_library name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "" "LINK;FEATURES")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/Tests/${name}/*.swift)
  add_library(${name} STATIC ${sources})
  coroutine_enable(${name} ${test_FEATURES})
  target_include_directories(${name} INTERFACE ${CMAKE_Swift_MODULE_DIRECTORY})
  target_link_libraries(${name} PRIVATE coroutine_options ${test_LINK})
  coroutine_touch_module(${name})
endfunction()

function(coroutine_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "" "LINK;DEFINE;FEATURES")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/Tests/${name}/*.swift)
  add_executable(${name} ${sources} ${COROUTINE_TEST_MAIN})
  target_compile_definitions(${name} PRIVATE ${test_DEFINE})
  coroutine_enable(${name} ${test_FEATURES})
  target_compile_options(${name} PRIVATE "SHELL:-parse-as-library -plugin-path ${SWIFT_TESTING_PLUGINS}")
  target_link_libraries(${name} PRIVATE coroutine_options ${test_LINK})
  # Ninja expects a module of a program too, which the compiler writes for one that exports its symbols only. With them
  # the tests see the same symbols in their backtraces as under SwiftPM.
  set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)
  coroutine_touch_module(${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 1200)
endfunction()
