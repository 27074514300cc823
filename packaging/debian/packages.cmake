# cpack -G DEB: kvgate, libkvgate1 and libkvgate-dev. Files go into /usr and /etc whatever
# CMAKE_INSTALL_PREFIX is.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME kvgate)
set(CPACK_PACKAGE_VENDOR "kvgate")
set(CPACK_PACKAGE_CONTACT "kvgate maintainers <maintainers@kvgate.invalid>" CACHE STRING
    "Maintainer of the packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_DIRECTORY "${CMAKE_BINARY_DIR}/packages")
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
    GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL kvgate library development)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(deb_version "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")
set(library_package "libkvgate${KVGATE_SOVERSION}")

set(about "A gateway that makes a prompt prefix cost once: the KV state of what agents
send again and again is computed once and kept in memory and on disk, and the
caches of providers are hit instead of missed. OpenAI and Anthropic clients
talk to it unchanged.")

set(CPACK_DEBIAN_KVGATE_PACKAGE_NAME kvgate)
set(CPACK_DEBIAN_KVGATE_PACKAGE_SECTION net)
set(CPACK_DEBIAN_KVGATE_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_KVGATE_DESCRIPTION
    "prompt-caching gateway with an embedded inference engine\n${about}\n.\n\
This package has the program and a service of systemd.")
set(CPACK_DEBIAN_KVGATE_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_KVGATE_PACKAGE_DEPENDS "adduser")
set(CPACK_DEBIAN_KVGATE_PACKAGE_RECOMMENDS "ca-certificates")
set(CPACK_DEBIAN_KVGATE_PACKAGE_CONTROL_EXTRA
    "${CMAKE_CURRENT_LIST_DIR}/conffiles;${CMAKE_CURRENT_LIST_DIR}/postinst;\
${CMAKE_CURRENT_LIST_DIR}/prerm;${CMAKE_CURRENT_LIST_DIR}/postrm")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME "${library_package}")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION
    "prompt-caching gateway as a library\n${about}\n.\nThis package has the shared library.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA "${CMAKE_CURRENT_LIST_DIR}/triggers")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libkvgate-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
    "prompt-caching gateway as a library, for C and C++\n${about}\n.\n\
This package has the headers, and files for CMake and pkg-config.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library_package} (= ${deb_version})")
if(KVGATE_STATIC)
  # What programs that link libkvgate.a link, too.
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "librocksdb-dev, libspdlog-dev, libfmt-dev, \
libsimdjson-dev, libxxhash-dev, libhwy-dev, libpcre2-dev, libutf8proc-dev, libssl-dev, zlib1g-dev, \
libzstd-dev, libbrotli-dev")
endif()

# Policy wants these in each package; they are of no use elsewhere.
set(changelogs "${CMAKE_CURRENT_BINARY_DIR}/changelogs")
add_custom_command(OUTPUT "${changelogs}/changelog.gz" "${changelogs}/changelog.Debian.gz"
  COMMAND Python3::Interpreter "${CMAKE_CURRENT_LIST_DIR}/changelog.py"
          "${CMAKE_SOURCE_DIR}/CHANGELOG.md" "${changelogs}" "${deb_version}"
          "${CPACK_PACKAGE_CONTACT}"
  DEPENDS "${CMAKE_SOURCE_DIR}/CHANGELOG.md" "${CMAKE_CURRENT_LIST_DIR}/changelog.py" VERBATIM)
add_custom_target(kvgate_changelogs ALL DEPENDS "${changelogs}/changelog.gz")
add_dependencies(installable kvgate_changelogs)
set(package_of_kvgate kvgate)
set(package_of_library ${library_package})
set(package_of_development libkvgate-dev)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  install(CODE "if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
  file(INSTALL \"${CMAKE_CURRENT_LIST_DIR}/copyright\" \"${changelogs}/changelog.gz\"
               \"${changelogs}/changelog.Debian.gz\"
       DESTINATION \"/usr/share/doc/${package_of_${component}}\")
endif()" COMPONENT ${component})
endforeach()
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_CURRENT_LIST_DIR}/cpack_check.cmake")
include(CPack)
