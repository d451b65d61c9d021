/* model.h: a model of SentencePiece that is open.
 *
 * The library encodes a text as a whole and sums scores in single precision, so that far into a
 * long text they lose digits. Here a text is cut in front of each space between two letters where
 * no piece of the model has an inner space: what the library gives for the parts, one after the
 * other, is what it gives for a short text, and a long one is encoded without that loss. */
#ifndef MODEL_H
#define MODEL_H

#include <sentencepiece_processor.h>

#include <memory>
#include <string>
#include <vector>
#include <weft/data.h>

struct weft_tokenizer {
    const weft_host *host;
    sentencepiece::SentencePieceProcessor model;
    std::string path, identity;
    std::vector<std::string> bytes; /* what each id becomes inside a text */
    uint32_t vocab, begin, end;     /* the last two plus 1; 0: none */
    bool cuts;                      /* a text may be cut in front of a space between two letters */
    bool prefixes;                  /* a space is put in front of a text */
    bool squeezes;                  /* several spaces are one, and none is at the ends */
};

/* Record a failure that names the file. It allocates nothing, so that it can say that there is no
 * memory. */
weft_status model_fail(const weft_tokenizer *t, weft_status code, const char *why) noexcept;

/* Read the file `path`. Whether the library survives it is tried in a child process first. */
weft_status model_load(weft_tokenizer *t, const char *path);

#endif
