# Run by cpack before it packs. Without these it would leave out what packages depend on, and go on.
foreach(tool IN ITEMS dpkg-shlibdeps file)
  find_program(KVGATE_TOOL_${tool} ${tool})
  if(NOT KVGATE_TOOL_${tool})
    message(FATAL_ERROR "cpack needs ${tool}: apt-get install dpkg-dev file")
  endif()
endforeach()
