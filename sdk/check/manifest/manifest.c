/* check/manifest/manifest.c: the manifest: the table of the group. */
#include "check/manifest/manifest.h"

static const check checks[] = {
    {15, NULL, 0, "Magic number, ABI numbers and layout tag are those of weft/plugin.h",
     "a field differs, so that no host loads the file", check_manifest_numbers},
    {16, NULL, 0, "weft_plugin_entry() returns the same pointer and bytes, from eight threads too",
     "data that is built on demand", check_manifest_constant},
    {17, NULL, 0, "The manifest and its tables are unchanged after open() and close()",
     "the plugin writes to its own tables", check_manifest_unchanged},
    {18, NULL, 0, "Id and names are well-formed, and those of third parties have a dot",
     "a slash, a capital letter, or no dot", check_manifest_names},
    {19, NULL, 0, "Interfaces are written name/major, and known ones exactly",
     "text behind the major number, or a major that this program lacks", check_manifest_interfaces},
    {20, NULL, 0, "Manifest, components, options, tables and mesh axes state a lawful size",
     "a size below that of ABI 0.9, or a non-zero end that this program does not know",
     check_manifest_sizes},
    {21, NULL, 0, "Every table has its mandatory members", "a member is NULL",
     check_manifest_members},
    {22, NULL, 0, "Members and capabilities go together, both ways",
     "a capability without its member, or a member without its capability", check_manifest_caps},
    {23, NULL, 0, "Reserved and flags words are 0, and capabilities are known", "a stray bit",
     check_manifest_reserved},
    {24, NULL, 0, "Defaults of options are lawful values", "a default outside its own bounds",
     check_manifest_defaults},
    {26, NULL, 0, "Options do not clash with the core's keys of their section",
     "a key that the core has there already", check_manifest_keys},
    {27, NULL, 0, "All texts are one line without control characters",
     "a newline, which breaks a table, or an escape, which a terminal obeys", check_manifest_lines},
    {28, NULL, 0, "No component is listed twice", "the same name and interface again",
     check_manifest_twice},
    {0},
};
const check_group check_group_manifest = {"manifest", "Manifest", checks};
