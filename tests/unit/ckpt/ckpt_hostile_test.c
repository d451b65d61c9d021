/* Is a checkpoint refused whose sums hold and whose contents do not: somebody made it so? */
#define _GNU_SOURCE
#include <openssl/sha.h>
#include <test.h>

#include "ckpt_model.h"

enum { FILE_MAX = 1 << 16 };

static void hex_of(const void *bytes, size_t n, char out[65])
{
    unsigned char sum[32];
    SHA256(bytes, n, sum);
    for (int i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

/* A manifest from the text before its sum. */
static void put_manifest(const char *body)
{
    static char text[FILE_MAX * 4];
    char hex[65];
    hex_of(body, strlen(body), hex);
    int n = snprintf(text, sizeof text, "%s,\"sha256\":\"%s\"}\n", body, hex);
    assert_in_range(n, 1, sizeof text - 1);
    put_file(file_of(1, "manifest.json"), text, (size_t)n);
}

#define WHOLE "\"a\":{\"dtype\":\"U8\",\"shape\":[2,4],\"data_offsets\":[0,8]}"
#define HALF0 "\"a@0\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}"
#define HALF4 "\"a@4\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}"
#define META "\"__metadata__\":{\"shape:a\":\"[2, 4]\"}"
#define PART(part, shape, begin, end)                                                              \
    "\"a@" part "\":{\"dtype\":\"U8\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end "]}"
#define LEFT PART("0:2,0:2", "2,2", "0", "4")
#define RIGHT PART("0:2,2:4", "2,2", "4", "8")
#define TENSOR(pieces) "\"a\":{\"dtype\":\"U8\",\"shape\":[2,4],\"pieces\":[" pieces "]}"
#define HALVES TENSOR("[0,0,4],[0,4,4]")
#define BLOCKS TENSOR("[0,0,4,[0,0],[2,2]],[0,0,4,[0,2],[2,2]]")

/* One shard with `header` (its length given as `length`, or the true one when 0) and `data` bytes,
 * and a manifest whose sums hold. */
static void craft(const char *header, uint64_t length, size_t data, const char *tensors)
{
    static char shard[FILE_MAX], body[FILE_MAX];
    char dir[4096], hex[65];
    size_t n = strlen(header);
    uint64_t given = length ? length : n;
    assert_true(8 + n + data < sizeof shard);
    snprintf(dir, sizeof dir, "%s/checkpoints", work);
    mkdir(dir, 0777);
    mkdir(file_of(1, ""), 0777);
    memcpy(shard, &given, 8);
    memcpy(shard + 8, header, n);
    for (size_t i = 0; i < data; i++)
        shard[8 + n + i] = (char)i;
    put_file(shard_of(1, 0, 1), shard, 8 + n + data);
    hex_of(shard, 8 + n + data, hex);
    snprintf(body, sizeof body,
             "{\"format\":\"weft checkpoint\",\"version\":1,\"step\":1,\"job\":\"\",\"shards\":[{"
             "\"bytes\":%zu,\"sha256\":\"%s\"}],\"tensors\":{%s}",
             8 + n + data, hex, tensors);
    put_manifest(body);
}

/* Elements 3, 4 and 5 of the tensor are those bytes of the shard. */
static void crafted_is_accepted(const char *bytes)
{
    char dir[4096];
    ckpt *c;
    snprintf(dir, sizeof dir, "%s", file_of(1, ""));
    if (ckpt_open(dir, &c) != WEFT_OK)
        fail_msg("%s", err_text());
    ckpt_piece a = {"a", WEFT_U8, 2, {2, 4}, {0}, {0}, 3, 3, NULL};
    unsigned char out[3];
    assert_int_equal(ckpt_read(c, &a, out), WEFT_OK);
    assert_memory_equal(out, bytes, 3);
    ckpt_close(c);
}

#define ENTRY(key, dtype, shape, begin, end)                                                       \
    "{\"" key "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end \
    "]}}"

static const struct {
    const char *header;
    uint64_t length;
    size_t data;
    const char *word;
} bad_headers[] = {
    {"{" WHOLE "}", 1, 8, "1 bytes long"},
    {"{" WHOLE "}", 1000, 8, "1000 bytes long"},
    {"{" WHOLE "}", 100000001, 8, "not possible"},
    {"{" WHOLE "}", INT64_MAX, 8, "not possible"},
    {"{" WHOLE "}", UINT64_MAX, 8, "not possible"},
    {"{" WHOLE "}", UINT64_MAX - 7, 8, "not possible"},
    {"", 0, 8, "not possible"},
    {" {" WHOLE "}", 0, 8, "not JSON"},
    {"{" WHOLE "} x", 0, 8, "not JSON"},
    {"{" WHOLE "," WHOLE "}", 0, 8, "twice"},
    {"{" WHOLE, 0, 8, "not JSON"},
    {"[" WHOLE "]", 0, 8, "not JSON"},
    {"{" WHOLE "}", 0, 7, "past the end"},
    {"{" WHOLE "}", 0, 9, "belong to no tensor"},
    {"{}", 0, 8, "belong to no tensor"},
    {"{}", 0, 0, "do not agree"},
    {"{\"a\":1}", 0, 8, "dtype, shape"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8]}}", 0, 8, "dtype, shape"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8],\"x\":1}}", 0, 8,
     "nothing else"},
    {ENTRY("a", "U9", "2,4", "0", "8"), 0, 8, "type"},
    {ENTRY("a", "U8", "2,5", "0", "8"), 0, 8, "does not agree"},
    {ENTRY("a", "U16", "2,4", "0", "8"), 0, 8, "type"},
    {ENTRY("a", "F32", "2,4", "0", "8"), 0, 8, "does not agree"},
    {ENTRY("a", "U8", "-2,-4", "0", "8"), 0, 8, "size below 1"},
    {ENTRY("a", "U8", "0,8", "0", "0"), 0, 8, "size below 1"},
    {ENTRY("a", "U8", "2.0,4", "0", "8"), 0, 8, "malformed"},
    {ENTRY("a", "U8", "\\\"2\\\",4", "0", "8"), 0, 8, "not JSON"},
    {ENTRY("a", "U8", "1,1,1,1,1,1,1,2,4", "0", "8"), 0, 8, "malformed"},
    {ENTRY("a", "U8", "4294967296,4294967296,8", "0", "8"), 0, 8, "too many"},
    {ENTRY("a", "F64", "2305843009213693952", "0", "8"), 0, 8, "too many"},
    {ENTRY("a", "U8", "99999999999999999999", "0", "8"), 0, 8, "not JSON"},
    {ENTRY("a", "U8", "2,4", "8", "0"), 0, 8, "does not agree"},
    {ENTRY("a", "U8", "2,4", "-8", "0"), 0, 8, "does not agree"},
    {ENTRY("a", "U8", "2,4", "1", "9"), 0, 9, "belong to no tensor"},
    {ENTRY("a", "U8", "2,4", "9223372036854775799", "9223372036854775807"), 0, 8, "belong to no"},
    {"{" WHOLE ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 0, 8, "overlap"},
    {ENTRY("../../etc/x", "U8", "2,4", "0", "8"), 0, 8, "do not agree"}, /* a name, no path */
    {ENTRY("a b", "U8", "2,4", "0", "8"), 0, 8, "tensor name"},
    {ENTRY("", "U8", "2,4", "0", "8"), 0, 8, "tensor name"},
    {ENTRY("\\u001b[2J", "U8", "2,4", "0", "8"), 0, 8, "tensor name"},
    {ENTRY("a\\u0000b", "U8", "2,4", "0", "8"), 0, 8, "not JSON"},
    {ENTRY("@0", "U8", "8", "0", "8"), 0, 8, "tensor name"},
    {"{" META "," HALF0 "," HALF4
     ",\"a@8\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[8,9]}}",
     0, 9, "inside its tensor"},
    {"{" HALF0 "," HALF4 "}", 0, 8, "whole shape"},
    {"{\"__metadata__\":{\"shape:a\":\"[2,4]\"}," HALF0 "," HALF4 "}", 0, 8, "whole shape"},
    {"{\"__metadata__\":{\"shape:a\":\"[2, 4\"}," HALF0 "," HALF4 "}", 0, 8, "whole shape"},
    {"{\"__metadata__\":{\"shape:a\":\"[2, 0]\"}," HALF0 "," HALF4 "}", 0, 8, "whole shape"},
    {"{\"__metadata__\":{\"shape:a\":\"[1, 1, 1, 1, 1, 1, 1, 2, 4]\"}," HALF0 "," HALF4 "}", 0, 8,
     "whole shape"},
    {"{\"__metadata__\":{\"shape:a\":\"[99999999999999999999]\"}," HALF0 "," HALF4 "}", 0, 8,
     "whole shape"},
    {"{\"__metadata__\":{\"shape:a\":8}," HALF0 "," HALF4 "}", 0, 8, "not text"},
    {"{\"__metadata__\":[]," HALF0 "," HALF4 "}", 0, 8, "not text"},
    {"{" META "," HALF0 ",\"a@04\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 0, 8,
     "after '@'"},
    {"{" META "," HALF0 ",\"a@\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 0, 8,
     "after '@'"},
    {"{" META "," HALF0 ",\"a@4@4\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 0, 8,
     "after '@'"},
    {"{" META "," HALF0 ",\"a@18446744073709551612\":{\"dtype\":\"U8\",\"shape\":[4],"
     "\"data_offsets\":[4,8]}}",
     0, 8, "after '@'"},
    {"{" META "," HALF0 ",\"a@4\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[4,8]}}", 0, 8,
     "vector"},
    {"{" META ",\"a@0\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", 0, 8,
     "inside its tensor"},
    {"{" META "," HALF0 ",\"a@3\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 0, 8,
     "do not agree"},
    {"{" META "," HALF0 ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 0, 8,
     "do not agree"},
    {"{" META "," HALF0 "}", 0, 4, "do not agree"},
    {"{" META "," LEFT "," RIGHT "}", 0, 8, "do not agree"},
    {"{" LEFT "," RIGHT "}", 0, 8, "whole shape"},
    {"{" META "," LEFT "," PART("0:2,2:5", "2,3", "4", "10") "}", 0, 10, "not inside it"},
    {"{" META "," PART("0:2,0:4", "2,4", "0", "8") "}", 0, 8, "all of its tensor"},
    {"{" META "," LEFT "," PART("0:2,2:2", "2", "4", "6") "}", 0, 6, "is empty"},
    {"{" META "," LEFT "," PART("0:2,2:1", "2", "4", "6") "}", 0, 6, "malformed"},
    {"{" META "," PART("0:2", "2", "0", "2") "}", 0, 2, "malformed"},
    {"{" META "," PART("0:2,", "2", "0", "2") "}", 0, 2, "malformed"},
    {"{" META "," PART("0:2,0", "2", "0", "2") "}", 0, 2, "malformed"},
    {"{" META "," PART(":", "2", "0", "2") "}", 0, 2, "malformed"},
    {"{" META "," PART("0:2;0:2", "2,2", "0", "4") "}", 0, 4, "malformed"},
    {"{" META "," PART("0:2,0:2,0:1", "2,2,1", "0", "4") "}", 0, 4, "malformed"},
    {"{" META "," PART("00:2,0:2", "2,2", "0", "4") "}", 0, 4, "malformed"},
    {"{" META "," PART("-1:1,0:2", "2,2", "0", "4") "}", 0, 4, "malformed"},
    {"{" META "," PART("0:9223372036854775807,0:2", "2,2", "0", "4") "}", 0, 4, "not inside"},
    {"{" META "," PART("0:9223372036854775808,0:2", "2,2", "0", "4") "}", 0, 4, "malformed"},
    {"{" META "," PART("0:2,0:2", "4", "0", "4") "}", 0, 4, "another shape"},
    {"{" META "," PART("0:1,0:2", "2,2", "0", "4") "}", 0, 4, "another shape"},
    {"{" META "," PART("0:2,0:2@", "4", "0", "4") "}", 0, 4, "number after"},
    {"{" META "," PART("0:2,0:2@0x", "3", "0", "3") "}", 0, 3, "number after"},
    {"{" META "," PART("0:2,0:2@0", "4", "0", "4") "}", 0, 4, "inside its tensor"},
    {"{" META "," PART("0:2,0:2@2", "3", "0", "3") "}", 0, 3, "inside its tensor"},
    {"{" META "," PART("0:2,0:2@0", "3,1", "0", "3") "}", 0, 3, "vector"},
    {"{" META "," PART("0:2,0:2@18446744073709551615", "2", "0", "2") "}", 0, 2, "number after"},
};

TEST(hostile_headers_are_refused)
{
    empty_work();
    craft("{" WHOLE "}", 0, 8, TENSOR("[0,0,8]")); /* the craft itself is sound */
    crafted_is_accepted("\3\4\5");
    craft("{" META "," HALF4 "," HALF0 "}   ", 0, 8, HALVES);
    crafted_is_accepted("\3\4\5");
    for (size_t i = 0; i < sizeof bad_headers / sizeof *bad_headers; i++) {
        craft(bad_headers[i].header, bad_headers[i].length, bad_headers[i].data, HALVES);
        refused(1, bad_headers[i].word);
    }
    static char deep[40000];
    size_t n = (size_t)snprintf(deep, sizeof deep, "{\"a\":");
    memset(deep + n, '[', sizeof deep - n - 1);
    craft(deep, 0, 8, HALVES);
    refused(1, "not JSON");
    craft("{" META "," HALF0 "," HALF4 "}", 0, 8, HALVES);
    crafted_is_accepted("\3\4\5");
}

TEST(hostile_pieces_are_refused)
{
    static const struct {
        const char *tensors, *word;
    } cases[] = {
        {"", "do not agree"},
        {TENSOR(""), "do not agree"},
        {TENSOR("[0,0,4]"), "do not agree"},
        {TENSOR("[0,0,4],[0,4,4],[0,4,4]"), "do not agree"},
        {TENSOR("[0,0,8]"), "do not agree"},
        {TENSOR("[0,0,4],[1,4,4]"), "piece 1"},
        {TENSOR("[0,0,4],[-1,4,4]"), "piece 1"},
        {TENSOR("[0,0,4],[4294967296,4,4]"), "piece 1"},
        {TENSOR("[0,0,4],[0,4,5]"), "piece 1"},
        {TENSOR("[0,0,4],[0,4,0]"), "piece 1"},
        {TENSOR("[0,0,4],[0,4,-4]"), "piece 1"},
        {TENSOR("[0,0,4],[0,-4,4]"), "piece 1"},
        {TENSOR("[0,0,4],[0,9223372036854775807,9223372036854775807]"), "piece 1"},
        {TENSOR("[0,0,4],[0,4]"), "piece 1"},
        {TENSOR("[0,0,4],[0,4,4,4]"), "piece 1"},
        {TENSOR("[0,0,4],[0,4,4.0]"), "piece 1"},
        {TENSOR("[0,0,4],{}"), "piece 1"},
        {HALVES "," HALVES, "twice"},
        {HALVES ",\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"pieces\":[[0,0,1]]}", "do not agree"},
        {"\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"pieces\":[[0,0,4],[0,4,4]]}", "do not agree"},
        {"\"a\":{\"dtype\":\"I32\",\"shape\":[2,4],\"pieces\":[[0,0,4],[0,4,4]]}", "do not agree"},
        {"\"a\":{\"dtype\":\"X\",\"shape\":[2,4],\"pieces\":[[0,0,4],[0,4,4]]}", "malformed"},
        {"\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"pieces\":[]}", "malformed"},
        {"\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,8],\"pieces\":[]}", "malformed"},
        {TENSOR("[0,0,4,[0,0]]"), "piece 0"},
        {TENSOR("[0,0,4,[0,0],[2,2],[]]"), "piece 0"},
        {TENSOR("[0,0,4,[0],[2,2]]"), "piece 0"},
        {TENSOR("[0,0,4,[0,0],[2]]"), "piece 0"},
        {TENSOR("[0,0,4,[0,0,0],[2,2,1]]"), "piece 0"},
        {TENSOR("[0,0,4,[0,0,0,0,0,0,0],[1,1,1,1,1,1,1]]"), "piece 0"},
        {TENSOR("[0,0,4,[0,3],[2,2]]"), "piece 0"},
        {TENSOR("[0,0,4,[0,-1],[2,2]]"), "piece 0"},
        {TENSOR("[0,0,4,[0,0],[2,-2]]"), "piece 0"},
        {TENSOR("[0,0,4,[0,9223372036854775807],[2,2]]"), "piece 0"},
        {TENSOR("[0,0,4,[0,2],[2,9223372036854775807]]"), "piece 0"},
        {TENSOR("[0,0,4,[0,0],[2,0]]"), "piece 0"},
        {TENSOR("[0,0,8,[0,0],[2,4]]"), "piece 0"},
        {TENSOR("[0,1,4,[0,0],[2,2]]"), "piece 0"},
        {TENSOR("[0,0,4,[0,0],[2,2.0]]"), "piece 0"},
        {TENSOR("[0,0,4,0,2]"), "piece 0"},
        {BLOCKS, "do not agree"},
        {"\"a\":{\"dtype\":\"U8\",\"shape\":8,\"pieces\":[]}", "malformed"},
        {"\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"pieces\":{}}", "malformed"},
        {"\"a\":[]", "malformed"},
        {"\"../a\\n\":{\"dtype\":\"U8\",\"shape\":[8],\"pieces\":[]}", "tensor name"},
    };
    empty_work();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        craft("{" META "," HALF0 "," HALF4 "}", 0, 8, cases[i].tensors);
        refused(1, cases[i].word);
    }
}

/* Header and manifest agree, and still a tensor is not covered once. */
TEST(hostile_blocks_are_refused)
{
    static const struct {
        const char *header;
        size_t data;
        const char *tensors, *word;
    } cases[] = {
        {"{" META "," LEFT "}", 4, TENSOR("[0,0,4,[0,0],[2,2]]"), "no shard has"},
        {"{" META "," LEFT "," PART("0:2,1:3", "2,2", "4", "8") "}", 8,
         TENSOR("[0,0,4,[0,0],[2,2]],[0,0,4,[0,1],[2,2]]"), "stored twice"},
        {"{" META "," LEFT "," PART("0:2,3:4", "2,1", "4", "6") "}", 6,
         TENSOR("[0,0,4,[0,0],[2,2]],[0,0,2,[0,3],[2,1]]"), "no shard has"},
        {"{" META "," LEFT
         "," PART("0:1,2:4", "1,2", "4", "6") "," PART("1:2,2:4", "1,2", "6", "8") "}",
         8, TENSOR("[0,0,4,[0,0],[2,2]],[0,0,2,[0,2],[1,2]],[0,0,2,[1,2],[1,2]]"),
         "do not form a grid"},
        {"{" META "," LEFT "," PART("0:2,2:4@0", "3", "4", "7") "}", 7,
         TENSOR("[0,0,4,[0,0],[2,2]],[0,0,3,[0,2],[2,2]]"), "elements from 3 on"},
        {"{" META "," HALF0 "," RIGHT "}", 8, TENSOR("[0,0,4],[0,0,4,[0,2],[2,2]]"),
         "elements from 4 on"},
    };
    empty_work();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        craft(cases[i].header, 0, cases[i].data, cases[i].tensors);
        refused(1, cases[i].word);
    }
    craft("{" META "," RIGHT "," LEFT "}", 0, 8, BLOCKS);
    crafted_is_accepted("\5\2\3");
    craft("{" META
          "," PART("0:2,0:2@0", "3", "0", "3") "," PART("0:2,0:2@3", "1", "3", "4") "," RIGHT "}",
          0, 8, TENSOR("[0,0,3,[0,0],[2,2]],[0,3,1,[0,0],[2,2]],[0,0,4,[0,2],[2,2]]"));
    crafted_is_accepted("\5\2\3");
}

TEST(hostile_manifests_are_refused)
{
    static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
    static const struct {
        const char *version, *step, *shards, *rest, *word;
    } cases[] = {
        {"2", "1", "", "", "version 2"},
        {"\"1\"", "1", "", "", "not the manifest"},
        {"1", "-1", "", "", "wrong type"},
        {"1", "1.5", "", "", "wrong type"},
        {"1", "1", "", ",\"more\":1", "unknown"},
        {"1", "1", "", ",\"step\":1", "twice"},
        {"1", "1", "", "", "list of shards"},
        {"1", "1", "{\"bytes\":-1,\"sha256\":\"%s\"}", "", "entry of shard 0"},
        {"1", "1", "{\"bytes\":1,\"sha256\":\"%.63s\"}", "", "entry of shard 0"},
        {"1", "1", "{\"bytes\":1,\"sha256\":\"%.63sA\"}", "", "entry of shard 0"},
        {"1", "1", "{\"bytes\":1,\"sha256\":\"%s0\"}", "", "entry of shard 0"},
        {"1", "1", "{\"bytes\":1}", "", "entry of shard 0"},
        {"1", "1", "{\"file\":\"../x\",\"bytes\":1,\"sha256\":\"%s\"}", "", "entry of shard 0"},
        {"1", "1", "\"../../x\"", "", "entry of shard 0"},
    };
    empty_work();
    craft("{" WHOLE "}", 0, 8, TENSOR("[0,0,8]"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[2048], format[1024];
        snprintf(format, sizeof format,
                 "{\"format\":\"weft checkpoint\",\"version\":%s,\"step\":%s,\"job\":\"\","
                 "\"shards\":[%s],\"tensors\":{}%s",
                 cases[i].version, cases[i].step, cases[i].shards, cases[i].rest);
        const char *mark = strchr(format, '%');
        if (mark) { /* the sum of a shard, whole or cut */
            bool cut = mark[1] == '.';
            snprintf(body, sizeof body, "%.*s%.*s%s", (int)(mark - format), format, cut ? 63 : 64,
                     zeros, mark + (cut ? 5 : 2));
        } else {
            snprintf(body, sizeof body, "%s", format);
        }
        put_manifest(body);
        refused_as(i ? WEFT_DATA : WEFT_UNSUPPORTED, 1, cases[i].word);
    }
    static char deep[40000];
    memset(deep, '[', sizeof deep - 1);
    put_manifest(deep);
    refused(1, "not JSON");
    put_manifest("{\"format\":\"other\",\"version\":1");
    refused(1, "not the manifest");
    put_manifest("");
    refused(1, "truncated");
    put_manifest(" ");
    refused(1, "not JSON");
}

int main(void)
{
    return test_run(make_work, remove_work);
}
