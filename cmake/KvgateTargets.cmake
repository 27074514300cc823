# kvgate_compile_together(TARGET)
#   With KVGATE_UNITY, its sources become a few translation units (see source_groups.py). CMake has
#   to run again if a source comes to name what another of its group defines for itself.
function(kvgate_compile_together target)
  if(NOT KVGATE_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(TRANSFORM sources PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" REGEX "^[^/]")
  # The groups of the run before hold while their sources are the same files, none of them newer:
  # to start Python for each target takes longer than everything else that CMake does.
  set(script "${CMAKE_SOURCE_DIR}/cmake/source_groups.py")
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}_groups")
  set(asked "")
  set(compiled "")
  if(EXISTS "${folder}/sources.txt" AND EXISTS "${folder}/compiled.txt")
    file(READ "${folder}/sources.txt" asked)
    file(READ "${folder}/compiled.txt" compiled)
  endif()
  set(is_known FALSE)
  if(compiled AND asked STREQUAL "${sources}")
    set(is_known TRUE)
    foreach(source IN LISTS sources ITEMS "${script}")
      if("${source}" IS_NEWER_THAN "${folder}/compiled.txt")
        set(is_known FALSE)
      endif()
    endforeach()
  endif()
  if(NOT is_known)
    execute_process(COMMAND "${Python3_EXECUTABLE}" -I -S "${script}" "${CMAKE_SOURCE_DIR}"
                            "${folder}" ${sources}
                    OUTPUT_VARIABLE compiled OUTPUT_STRIP_TRAILING_WHITESPACE
                    COMMAND_ERROR_IS_FATAL ANY)
    file(WRITE "${folder}/sources.txt" "${sources}")
    file(WRITE "${folder}/compiled.txt" "${compiled}")
  endif()
  set_target_properties(${target} PROPERTIES SOURCES "${compiled}")
  # g++ takes a type of an unnamed namespace for one that several translation units define, where
  # the source that has it is included.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# kvgate_library(FOLDER SOURCES ... DEPS ... PRIVATE ...)
#   The library of one folder: engine/kv becomes target kvgate_engine_kv. DEPS are seen by users of
#   its headers, PRIVATE ones only by its sources. In kernels/ each source is compiled alone: many
#   have flags of their own or compile themselves once per instruction set.
function(kvgate_library folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE" ${ARGN})
  string(REPLACE "/" "_" name "kvgate_${folder}")
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    target_include_directories(${name} PUBLIC "${CMAKE_SOURCE_DIR}")
    target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE})
    if(NOT folder MATCHES "^kernels")
      # Only kernels need more in a dev build: at -O2 the rest takes half as long again to compile
      # and its tests hardly run faster.
      target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
      kvgate_compile_together(${name})
    endif()
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE "${CMAKE_SOURCE_DIR}")
    target_link_libraries(${name} INTERFACE ${ARG_DEPS})
  endif()
endfunction()

# kvgate_tests(FOLDER [ROOMS ...] DEPS ...)
#   All tests/FOLDER/*_test.cc, and those in the ROOMS below it, as one program; each test is known
#   to ctest by its own name. A test of a suite named ...TimingTest measures time: it has the label
#   timing, and ctest runs it alone, so that no neighbour on the same cores is measured with it.
function(kvgate_tests folder)
  cmake_parse_arguments(ARG "" "" "ROOMS;DEPS" ${ARGN})
  string(REPLACE "/" "_" name "${folder}_test")
  set(patterns "${CMAKE_SOURCE_DIR}/tests/${folder}/*_test.cc")
  foreach(room ${ARG_ROOMS})
    list(APPEND patterns "${CMAKE_SOURCE_DIR}/tests/${folder}/${room}/*_test.cc")
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  if(NOT sources)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY KVGATE_TESTS_BUILT ${sources})
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}")
  target_compile_definitions(${name} PRIVATE KVGATE_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                             KVGATE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  # A test runs once, so optimising it more costs more time than it saves. g++ 12 then inlines only
  # one of some pairs of allocation functions and takes them for mismatched.
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE -Wno-mismatched-new-delete)
  endif()
  kvgate_compile_together(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  # Seconds. Emulated devices are slow with sanitizers.
  set(timeout 600)
  if(KVGATE_SANITIZE)
    set(timeout 3000)
  endif()
  set(others "*TimingTest.*")
  # With KVGATE_TEST_FULL=1 the day of 500 agents takes half an hour.
  if("${sources}" MATCHES "workday_test")
    string(APPEND others ":WorkdayTest.*")
    gtest_discover_tests(${name} TEST_FILTER "WorkdayTest.*" DISCOVERY_TIMEOUT 120
                         PROPERTIES TIMEOUT 5400)
  endif()
  gtest_discover_tests(${name} TEST_FILTER "-${others}" DISCOVERY_TIMEOUT 120
                       PROPERTIES TIMEOUT ${timeout})
  gtest_discover_tests(${name} TEST_FILTER "*TimingTest.*" DISCOVERY_TIMEOUT 120
                       PROPERTIES TIMEOUT ${timeout} LABELS timing RUN_SERIAL TRUE)
endfunction()
