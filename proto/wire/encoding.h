/* Which messages of a call are compressed, and how: a matter of its encoding and of a mode, set for
 * the call or changed between its messages.
 *
 * AUTO: a server does what the caller did, so answers are compressed when the request named an
 * encoding that the caller also accepts; a client compresses when its call has an encoding; and
 * both only from BOX_MIN_COMPRESS_BYTES on. ALWAYS: each message, with the request's encoding or
 * the first of gzip and deflate that the peer accepts. NEVER: none. A message that would not get
 * smaller always goes as it is, and nothing is sent that the peer did not say it accepts. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

typedef enum box_encoding {
    BOX_IDENTITY,
    BOX_GZIP,
    BOX_DEFLATE, /* the zlib format, as C-core sends it */
    BOX_ENCODINGS,
    BOX_ENCODING_OTHER = BOX_ENCODINGS, /* a name that came and we do not know */
} box_encoding;

typedef enum box_compress_mode {
    BOX_COMPRESS_AUTO,
    BOX_COMPRESS_NEVER,
    BOX_COMPRESS_ALWAYS,
} box_compress_mode;

#ifdef __cplusplus
}
#endif
