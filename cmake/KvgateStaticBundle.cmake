# kvgate_internal_parts(VARIABLE TARGET)
#   The static libraries of this tree that TARGET needs, itself among them.
function(kvgate_internal_parts variable target)
  set(seen "")
  set(found "")
  set(waiting ${target})
  while(waiting)
    list(POP_FRONT waiting name)
    if(NOT name MATCHES "^kvgate_" OR NOT TARGET ${name} OR name IN_LIST seen)
      continue()
    endif()
    list(APPEND seen ${name})
    get_target_property(type ${name} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND found ${name})
      get_target_property(linked ${name} LINK_LIBRARIES)
    else()
      get_target_property(linked ${name} INTERFACE_LINK_LIBRARIES)
    endif()
    if(linked)
      list(APPEND waiting ${linked})
    endif()
  endwhile()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# kvgate_static_bundle(NAME OUTPUT file TARGET target SYMBOLS pattern)
#   A target NAME that makes one archive of TARGET and what it needs of this tree. Only symbols that
#   fit the pattern can be seen from outside, so that a program's own classes and its instances of
#   templates cannot be taken for ours. It is built when it is asked for.
function(kvgate_static_bundle name)
  cmake_parse_arguments(ARG "" "OUTPUT;TARGET;SYMBOLS" "" ${ARGN})
  kvgate_internal_parts(parts ${ARG_TARGET})
  set(others ${parts})
  list(REMOVE_ITEM others ${ARG_TARGET})
  list(TRANSFORM others REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE other_files)
  set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.o")
  # ld.bfd by name: it alone takes the groups apart (--force-group-allocation). In a group the
  # linker of a program would drop our copy of a template for the program's, although its name had
  # been made local, and what refers to it would refer to nothing.
  find_program(KVGATE_LD_BFD ld.bfd)
  if(KVGATE_LD_BFD AND NOT KVGATE_HAS_CUDA)
    add_custom_command(OUTPUT "${ARG_OUTPUT}"
      COMMAND "${KVGATE_LD_BFD}" -r --force-group-allocation -o "${object}"
              --whole-archive "$<TARGET_FILE:${ARG_TARGET}>" --no-whole-archive
              --start-group ${other_files} --end-group
      # objcopy makes unique symbols (statics of inline functions) local only if they are weak.
      COMMAND sh -c "\"$1\" --defined-only \"$2\" | awk '$2 == \"u\" { print $3 }' >\"$2.unique\""
              sh "${CMAKE_NM}" "${object}"
      COMMAND "${CMAKE_OBJCOPY}" "--weaken-symbols=${object}.unique" "${object}"
      COMMAND "${CMAKE_OBJCOPY}" --wildcard "--keep-global-symbol=${ARG_SYMBOLS}" "${object}"
      COMMAND "${CMAKE_COMMAND}" -E rm -f "${ARG_OUTPUT}"
      COMMAND "${CMAKE_AR}" rcs "${ARG_OUTPUT}" "${object}"
      COMMAND "${CMAKE_COMMAND}" -E rm -f "${object}" "${object}.unique"
      DEPENDS ${parts} COMMENT "Bundling ${ARG_OUTPUT}" VERBATIM)
    add_custom_target(${name} DEPENDS "${ARG_OUTPUT}")
  else()
    add_custom_target(${name} COMMAND "${CMAKE_COMMAND}" -E echo
      "the static library needs ld.bfd (binutils) and a build without CUDA (-DKVGATE_CUDA=OFF)"
      COMMAND "${CMAKE_COMMAND}" -E false VERBATIM)
  endif()
endfunction()
