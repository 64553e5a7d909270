# troupe_embed(<target> NAMESPACE <namespace> FILES <file>…) compiles text files into a target: a file page.css becomes
# `extern const std::string_view page_css` in the namespace. Run as a script, this file writes the source.
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "#include <string_view>\n\nnamespace ${NAMESPACE} {\n\n")
  foreach(path ${FILES})
    file(READ ${path} content)
    get_filename_component(name ${path} NAME)
    string(MAKE_C_IDENTIFIER ${name} name)
    string(APPEND text "extern const std::string_view ${name};\n"
      "const std::string_view ${name} = R\"~embedded~(${content})~embedded~\";\n\n")
  endforeach()
  file(WRITE ${OUTPUT} "${text}}  // namespace ${NAMESPACE}\n")
  return()
endif()

set(TROUPE_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(troupe_embed target)
  cmake_parse_arguments(arg "" "NAMESPACE" "FILES" ${ARGN})
  string(MAKE_C_IDENTIFIER ${arg_NAMESPACE} name)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.cpp)
  list(TRANSFORM arg_FILES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  add_custom_command(OUTPUT ${output} VERBATIM
    COMMAND ${CMAKE_COMMAND} -D NAMESPACE=${arg_NAMESPACE} "-DFILES=${arg_FILES}" -D OUTPUT=${output}
      -P ${TROUPE_EMBED_SCRIPT}
    DEPENDS ${arg_FILES} ${TROUPE_EMBED_SCRIPT})
  target_sources(${target} PRIVATE ${output})
endfunction()
