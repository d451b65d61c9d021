/* config/store.h: the representation of a config; private to this folder. */
#ifndef CONFIG_STORE_H
#define CONFIG_STORE_H

#include "base/mem.h"
#include "config/config.h"

#define CONFIG_MAX_NAME 48   /* bytes of a section or key; the parser below would cut longer ones */
#define CONFIG_MAX_LINE 4000 /* bytes of a line, leading blanks not counted */
#define CONFIG_MAX_KEYS 4096 /* keys of one job */
#define CONFIG_MAX_TEXT (1u << 20)

typedef struct config_setting { /* section, key and value are owned by the pool */
    const char *section, *key, *value;
    uint32_t line; /* 0: the command line */
    /* The place, when it is not the job's file; without a line: a place as text. */
    const char *file;
    bool tuned;         /* from the file that comm.tuned names */
    const char *former; /* the word of before, as written; NULL: none */
} config_setting;

typedef struct config_heading {
    const char *section;
    uint32_t line; /* 0: the command line */
} config_heading;

typedef struct config_declaration {
    const char *section, *owner;
    const weft_option *option; /* borrowed */
    uint32_t effect;           /* differ.h */
    bool unused;               /* of a plugin that the job does not use */
} config_declaration;

typedef struct config_bound_conf config_bound_conf; /* a weft_conf and what it looks into */

struct config {
    pool pool;
    const char *name;            /* for messages: "job.ini"; NULL without a file */
    VEC(config_setting) entries; /* in the order of the text, then those of the command line */
    VEC(config_heading) sections;
    VEC(const char *) knowns; /* sections added, in that order */
    VEC(config_declaration) options;
    config_bound_conf *confs;
    const char *remark;       /* the last line of a dump; NULL: none */
    VEC(config_setting) code; /* what config_load_saved() has left out */
    bool shared;              /* config_share_command_line() */
    bool dumped;              /* the text is of config_dump() */
};

/* A value parsed by its option. */
typedef struct config_parsed {
    int64_t i;
    double r;
} config_parsed;

/* ini.c: fill c->entries and c->sections from `bytes` bytes of text. */
weft_status config_read_ini(config *c, const char *text, size_t bytes);

/* value.c: parse `text` by the option. On false, `why` has the reason, as it follows a colon.
 * `reals`, if not NULL, receives up to `cap` numbers of WEFT_OPT_REALS. */
#define VALUE_WHY 512
bool config_read_value(const weft_option *o, const char *text, config_parsed *out,
                       char why[VALUE_WHY]);
uint32_t config_read_reals(const char *text, double *reals, uint32_t cap);

/* value.c: the option reads the same from both; a text that it does not take is another value. */
bool config_same_value(const weft_option *o, const char *a, const char *b);

/* store.c: an empty config that knows the core's sections. */
config *config_new(const char *name);

/* store.c: the last entry of section and key, or NULL. */
const config_setting *config_entry(const config *c, const char *section, const char *key);

/* store.c: add an entry like `e`, with its own copies of the texts. */
void config_put(config *c, config_setting e);

/* store.c: record that the section was written; each name once. */
void config_note_section(config *c, const char *section, uint32_t line);

/* store.c: "comm.tcp.encrypt" to "comm.tcp" and "encrypt". */
const char *config_split(const char *name, char section[CONFIG_MAX_NAME + 1]);

/* store.c: "job.ini:12", or what `file` is without a line; both absent: "command line". In the pool
 * of `c`, which grows: its values do not change. */
const char *config_place(const config *c, const config_setting *e);

/* store.c: the section is `name` or "`name`.anything"; NULL: never. */
bool config_within(const char *section, const char *name);

/* store.c: whether the section is known; who declared a key first, or NULL. */
bool config_knows(const config *c, const char *section);
const config_declaration *config_declared(const config *c, const char *section, const char *key);

/* store.c: the text of a key as written, or its default; "" without either. */
const char *config_value(const config *c, const config_declaration *d);

/* store.c: whether only plugins that the job does not use declare the key. */
bool config_unused(const config *c, const char *section, const char *key);

/* store.c: move the keys that name code from c->entries to c->code. */
void config_leave_out_code(config *c);

/* tuned_file.c: the keys of the file that comm.tuned names, if any. */
weft_status config_read_tuned(config *c);

/* The number of leading bytes of the text that form whole UTF-8 characters: n if all do. */
size_t config_utf8(const char *text, size_t n);

#endif
