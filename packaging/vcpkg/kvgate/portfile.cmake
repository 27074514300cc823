# An overlay port of the tree that it stands in:
# vcpkg install kvgate --overlay-ports=packaging/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
vcpkg_find_acquire_program(PKGCONFIG)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DKVGATE_BUILD_TESTS=OFF -DKVGATE_CUDA=OFF "-DPKG_CONFIG_EXECUTABLE=${PKGCONFIG}")
vcpkg_cmake_build(TARGET installable)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME kvgate CONFIG_PATH lib/cmake/kvgate)
vcpkg_fixup_pkgconfig()
vcpkg_copy_tools(TOOL_NAMES kvgate AUTO_CLEAN)
# The service and its configuration are for a system, not for a folder of libraries.
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/etc" "${CURRENT_PACKAGES_DIR}/lib/systemd"
                    "${CURRENT_PACKAGES_DIR}/debug/etc" "${CURRENT_PACKAGES_DIR}/debug/lib/systemd"
                    "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
