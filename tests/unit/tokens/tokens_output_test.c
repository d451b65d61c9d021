/* Is a token file right that is written id by id, and is the old one there when it is given up? */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <test.h>

#include "tokens/inspect.h"
#include "tokens/output.h"

#include "token_file.h"

static char folder[] = "/tmp/weft-output-XXXXXX";
static char path[256];
static const int32_t ids[7] = {1, 2, 3, 4, 5, 6, 99999};

static int begin(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/tokens.bin", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

/* 20,000 documents: more than a buffer of the index has, in the middle of the ids' buffers. */
TEST(many_documents_are_written)
{
    enum { DOCUMENTS = 20000 };
    static uint64_t ends[DOCUMENTS], read[DOCUMENTS];
    tokens_output *o;
    assert_int_equal(tokens_output_open(path, 100000, true, &o), WEFT_OK);
    for (uint64_t i = 0, at = 0; i < DOCUMENTS; i++) {
        assert_int_equal(tokens_output_add(o, ids, 1 + i % 7), WEFT_OK);
        assert_int_equal(tokens_output_end_document(o), WEFT_OK);
        assert_int_equal(tokens_output_end_document(o), WEFT_OK); /* none is empty */
        ends[i] = at += 1 + i % 7;
    }
    assert_int_equal(tokens_output_tokens(o), ends[DOCUMENTS - 1]);
    assert_int_equal(tokens_output_finish(o), WEFT_OK);
    assert_int_equal(tokens_output_rename(o), WEFT_OK);
    tokens_output_close(o, true);
    tokens_facts facts;
    assert_int_equal(tokens_inspect(path, true, &facts), WEFT_OK);
    assert_int_equal(facts.documents, DOCUMENTS);
    assert_int_equal(facts.largest, 99999);
    assert_int_equal(facts.header.bits, 32);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, -(long)sizeof read, SEEK_END), 0);
    assert_int_equal(fread(read, sizeof read, 1, f), 1);
    assert_memory_equal(read, ends, sizeof read);
    fclose(f);
    assert_int_equal(files_in(folder), 1);
}

/* Given up at each point: the file of before is there, and nothing else. */
TEST(the_old_file_is_kept)
{
    for (int done = 0; done < 4; done++) {
        tokens_output *o;
        tokens_facts facts;
        assert_int_equal(tokens_output_open(path, 256, done % 2, &o), WEFT_OK);
        if (done > 0)
            assert_int_equal(tokens_output_add(o, ids, 5), WEFT_OK);
        if (done > 1)
            assert_int_equal(tokens_output_finish(o), WEFT_OK);
        if (done > 2)
            assert_int_equal(tokens_output_rename(o), WEFT_OK);
        tokens_output_close(o, false);
        assert_int_equal(tokens_inspect(path, false, &facts), WEFT_OK);
        assert_int_equal(facts.documents, 20000);
        assert_int_equal(files_in(folder), 1);
    }
    tokens_output *o;
    assert_int_equal(tokens_output_open(path, 256, true, &o), WEFT_OK);
    assert_int_equal(tokens_output_finish(o), WEFT_USAGE); /* no tokens */
    tokens_output_close(o, false);
    tokens_output_close(NULL, true);
    assert_int_equal(files_in(folder), 1);
}

int main(void)
{
    return test_run(begin, end);
}
