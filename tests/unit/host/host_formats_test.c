/* Are the tables of names of a model family checked before anything reads them? */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "host/object.h"

#include <weft/model.h>

#include <test.h>

static const weft_option layers = {.struct_size = sizeof layers, .key = "layers"};
static const weft_option *const options[] = {&layers, NULL};
static const weft_component family = {
    .struct_size = sizeof family, .name = "odd", .options = options};

static weft_status adopt(const weft_model_format *const *formats, weft_model_table *t)
{
    static host h;
    host_object o = {.owner = &h};
    *t = (weft_model_table){.struct_size = sizeof *t, .formats = formats};
    return host_adopt_formats(&o, &family, t);
}

#define TENSOR(...)                                                                                \
    (const weft_model_tensor *const[])                                                             \
    {                                                                                              \
        &(const weft_model_tensor){sizeof(weft_model_tensor), __VA_ARGS__}, NULL                   \
    }
#define FIELD(...)                                                                                 \
    (const weft_model_field *const[])                                                              \
    {                                                                                              \
        &(const weft_model_field){sizeof(weft_model_field), __VA_ARGS__}, NULL                     \
    }

static const weft_model_tensor row = {sizeof row, 0, "a.*.w", "b.*.w", "x (y z)"},
                               bare = {sizeof bare, WEFT_TENSOR_BARE, "w", "c", NULL},
                               mask = {sizeof mask, 0, NULL, "b.*.mask", NULL},
                               other = {sizeof other, 0, NULL, "b.*.other", NULL};
static const weft_model_tensor *const rows[] = {&row, &bare, &mask, &other, NULL};
static const weft_model_field key = {sizeof key, 0, "layers", "n_layer", NULL, NULL},
                              only = {sizeof only, 0, NULL, "act", "relu", "relu|silu"};
static const weft_model_field *const fields[] = {&key, &only, NULL};
static const weft_model_format good = {sizeof good, 0, "other", "ArchA|ArchB", "", rows, fields};

TEST(lawful)
{
    weft_model_table t;
    assert_int_equal(adopt((const weft_model_format *const[]){&good, NULL}, &t), WEFT_OK);
    assert_ptr_not_equal(t.formats[0], &good);
    assert_string_equal(t.formats[0]->tensors[0]->axes, "x (y z)");
    assert_int_equal(t.formats[0]->tensors[1]->flags, WEFT_TENSOR_BARE);
    assert_null(t.formats[0]->tensors[2]->param);
    assert_string_equal(t.formats[0]->tensors[3]->name, "b.*.other");
    assert_null(t.formats[0]->tensors[4]);
    assert_string_equal(t.formats[0]->fields[1]->values, "relu|silu");
    assert_null(t.formats[0]->fields[2]);
    assert_null(t.formats[1]);
    assert_int_equal(adopt(NULL, &t), WEFT_OK);
    assert_null(t.formats[0]);
}

static char long_text[300];

static void refused(const weft_model_format *f, const char *says)
{
    weft_model_table t;
    assert_int_not_equal(adopt((const weft_model_format *const[]){f, NULL}, &t), WEFT_OK);
    if (!strstr(err_text(), says) || !strstr(err_text(), "odd"))
        fail_msg("expected '%s' in: %s", says, err_text());
}

TEST(formats)
{
    weft_model_format f = good;
    weft_model_table t;
    memset(long_text, 'x', sizeof long_text - 1);
    f.struct_size = 16;
    refused(&f, "its format has 16 bytes, at least 48 are needed");
    f = good;
    f.flags = 1;
    refused(&f, "format 0: it has flags");
    f = good;
    f.format = NULL;
    refused(&f, "format 0: its name is NULL");
    f.format = "";
    refused(&f, "format 0: its name is empty");
    f = good;
    f.architecture = long_text;
    refused(&f, "its architecture is longer than 255 bytes");
    f = good;
    f.prefix = NULL;
    refused(&f, "its prefix is NULL");
    f = good;
    f.tensors = NULL;
    refused(&f, "its tensors are missing");
    const weft_model_format *const twice[] = {&good, &good, NULL};
    assert_int_equal(adopt(twice, &t), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "two formats 'other'"));
    const weft_model_format *many[20] = {0};
    for (size_t i = 0; i < 19; i++)
        many[i] = &good;
    assert_int_equal(adopt(many, &t), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "more than 16 formats"));
}

TEST(tensors)
{
    const struct {
        const char *says;
        const weft_model_tensor *const *rows;
    } wrong[] = {
        {"tensor 0: its param is empty", TENSOR(0, "", "b", NULL)},
        {"tensor 0: it has no param, and so may have no axes", TENSOR(0, NULL, "b", "x")},
        {"tensor 0: it has no param, and so may have no axes", TENSOR(0, NULL, "b.*.*", NULL)},
        {"tensor 0: its name is NULL", TENSOR(0, "a", NULL, NULL)},
        {"its param is longer than 255 bytes", TENSOR(0, long_text, "b", NULL)},
        {"its name has a byte that is not printable", TENSOR(0, "a", "b\n", NULL)},
        {"flags that this version of weft does not know", TENSOR(2, "a", "b", NULL)},
        {"have not both one '*'", TENSOR(0, "a.*", "b", NULL)},
        {"have not both one '*'", TENSOR(0, "a.*.*", "b.*.*", NULL)},
        {"its axes is empty", TENSOR(0, "a", "b", "")},
        {"its axes are not names", TENSOR(0, "a", "b", "x  y")},
        {"its axes are not names", TENSOR(0, "a", "b", " x")},
        {"its axes are not names", TENSOR(0, "a", "b", "x ")},
        {"its axes are not names", TENSOR(0, "a", "b", "(x")},
        {"its axes are not names", TENSOR(0, "a", "b", "x)")},
        {"its axes are not names", TENSOR(0, "a", "b", "((x))")},
        {"its axes are not names", TENSOR(0, "a", "b", "(x (y) z)")},
        {"its axes are not names", TENSOR(0, "a", "b", "()")},
        {"its axes are not names", TENSOR(0, "a", "b", "x,y")},
        {"its tensor has 8 bytes",
         (const weft_model_tensor *const[]){&(const weft_model_tensor){8, 0, "a", "b", NULL},
                                            NULL}},
        {"tensor 1: w is there twice", (const weft_model_tensor *const[]){&bare, &bare, NULL}},
        {"tensor 1: c is there twice",
         (const weft_model_tensor *const[]){
             &bare, &(const weft_model_tensor){sizeof bare, 0, "v", "c", NULL}, NULL}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_model_format f = good;
        f.tensors = wrong[i].rows;
        refused(&f, wrong[i].says);
    }
    static const weft_model_tensor *endless[2000];
    for (size_t i = 0; i < 1999; i++)
        endless[i] = &row;
    weft_model_format f = good;
    f.tensors = endless;
    refused(&f, "more than 1024 rows");
}

TEST(of_fields)
{
    const struct {
        const char *says;
        const weft_model_field *const *rows;
    } wrong[] = {
        {"field 0: its field is NULL", FIELD(0, "layers", NULL, NULL, NULL)},
        {"its key is none of the component's options", FIELD(0, "laiers", "n", NULL, NULL)},
        {"its key is empty", FIELD(0, "", "n", NULL, NULL)},
        {"its values are NULL, and it has no key", FIELD(0, NULL, "n", NULL, NULL)},
        {"its dflt is longer", FIELD(0, "layers", "n", long_text, NULL)},
        {"its values is empty", FIELD(0, "layers", "n", NULL, "")},
        {"flags that this version of weft does not know", FIELD(2, "layers", "n", NULL, NULL)},
        {"must have a key, a dflt and no values",
         FIELD(WEFT_FIELD_IMPLIED, "layers", "n", NULL, NULL)},
        {"field 1: act is there twice", (const weft_model_field *const[]){&only, &only, NULL}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_model_format f = good;
        f.fields = wrong[i].rows;
        refused(&f, wrong[i].says);
    }
}
