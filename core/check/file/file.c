/* check/file/file.c: the file and its loading: the table of the group. */
#include "check/file/file.h"

static const check checks[] = {
    {1, NULL, 0, "The object exports one symbol, weft_plugin_entry",
     "its dynamic symbol table defines a second global symbol", check_file_exports},
    {2, NULL, 0, "The object defines weft_plugin_entry itself",
     "the loader finds the entry in a library that the object links", check_file_own_entry},
    {3, NULL, 0, "All symbols are found in the libraries that the object names",
     "RTLD_NOW fails, or a symbol comes from the program", check_file_undefined},
    {4, NULL, 0, "The object has no text relocations", "DT_TEXTREL or DF_TEXTREL is set",
     check_file_text_relocations},
    {5, NULL, 0, "The object asks for no executable stack",
     "PT_GNU_STACK is missing or has the flag E", check_file_stack},
    {6, NULL, 0, "The run path has only $ORIGIN and folders of the system",
     "an absolute, relative or empty entry in DT_RUNPATH or DT_RPATH", check_file_run_path},
    {7, NULL, 0, "Static thread-local storage is at most 1 KiB",
     "DF_STATIC_TLS with a larger PT_TLS: dlopen() fails in a process with many libraries",
     check_file_tls},
    {8, NULL, 0, "Constructors have no effect that can be observed",
     "threads, descriptors, environment, handlers or output differ after dlopen()",
     check_file_constructors},
    {9, NULL, 0, "Loading and weft_plugin_entry() take less than 100 ms",
     "the best of five processes takes longer", check_file_load_time},
    {11, NULL, 0, "Only root and the user may write the file and its folders",
     "the owner is another user, or group or others may write", check_file_owner},
    {12, NULL, 0, "The object may be closed and loaded again",
     "a crash in a destructor, or another manifest after dlclose() and dlopen()",
     check_file_reload},
    {13, NULL, 0, "exit() works while a module is open", "a crash or a hang in exit()",
     check_file_exit},
    {0},
};
const check_group check_group_file = {"file", "File and loading", checks};
