# cmake -DSOURCE=file -DTARGET=file.cc -DFUNCTION=name -P embed_text.cmake: a text file as a C++ function that returns it.
file(READ ${SOURCE} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "((0x[0-9a-f][0-9a-f],)(0x[0-9a-f][0-9a-f],)?(0x[0-9a-f][0-9a-f],)?(0x[0-9a-f][0-9a-f],)?)" "\\1\n" bytes "${bytes}")
file(WRITE ${TARGET} "#include <string_view>\nnamespace quern {\nnamespace {\nconst unsigned char kText[] = {\n${bytes}};\n}\n"
     "std::string_view ${FUNCTION}() { return {reinterpret_cast<const char*>(kText), sizeof(kText)}; }\n}\n")
