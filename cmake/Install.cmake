# SPDX-License-Identifier: Apache-2.0

# What `cmake --install` puts where, so that other projects find it:
#
#   lib/libCoroutine.a, …             or .so, with -DBUILD_SHARED_LIBS=ON
#   lib/coroutine/modules/            the Swift modules
#   include/coroutine/<name>/         the C headers, with a module map: Swift code that uses the runtime reads them too
#   lib/cmake/Coroutine/              find_package(Coroutine); targets Coroutine::Coroutine, Coroutine::CoroutineIO, …
#   lib/pkgconfig/                    the switch in assembly, which is of use to C alone; where it is an archive of its own.
#                                     All other C parts are of none without the Swift libraries, which pkg-config can't
#                                     describe.
#
# The folder may be moved afterwards.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(COROUTINE_INSTALL_MODULES ${CMAKE_INSTALL_LIBDIR}/coroutine/modules)
set(COROUTINE_INSTALL_HEADERS ${CMAKE_INSTALL_INCLUDEDIR}/coroutine)
set(COROUTINE_INSTALL_CONFIG ${CMAKE_INSTALL_LIBDIR}/cmake/Coroutine)

# coroutine_install_library(<name>): it lies beside those that it is linked with.
function(coroutine_install_library name)
  get_target_property(type ${name} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    # Before 1.0 each minor version may change what programs are compiled against.
    set_target_properties(${name} PROPERTIES
      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} INSTALL_RPATH "$ORIGIN")
  endif()
  install(TARGETS ${name} EXPORT CoroutineTargets)
endfunction()

function(coroutine_install_headers name folder module_map)
  install(DIRECTORY ${folder}/ DESTINATION ${COROUTINE_INSTALL_HEADERS}/${name} FILES_MATCHING PATTERN "*.h")
  install(FILES ${module_map} DESTINATION ${COROUTINE_INSTALL_HEADERS}/${name})
endfunction()

function(coroutine_install_swift_module name)
  install(FILES ${CMAKE_Swift_MODULE_DIRECTORY}/${name}.swiftmodule ${CMAKE_Swift_MODULE_DIRECTORY}/${name}.swiftdoc
    DESTINATION ${COROUTINE_INSTALL_MODULES})
endfunction()

# Once, behind all libraries.
function(coroutine_install_package)
  install(EXPORT CoroutineTargets NAMESPACE Coroutine:: DESTINATION ${COROUTINE_INSTALL_CONFIG})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/CoroutineConfig.cmake.in CoroutineConfig.cmake @ONLY)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/CoroutineConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/CoroutineConfig.cmake ${PROJECT_BINARY_DIR}/CoroutineConfigVersion.cmake
    DESTINATION ${COROUTINE_INSTALL_CONFIG})
  if(TARGET CCoroutineContextASM AND NOT BUILD_SHARED_LIBS)
    # From where the file itself lies: `cmake --install --prefix` chooses the folder after this.
    cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
      OUTPUT_VARIABLE include)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/coroutine-context-asm.pc.in coroutine-context-asm.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/coroutine-context-asm.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  endif()
endfunction()
