/* A download that is not complete yet: blobs/ETAG.osprey-part has the bytes, at their places, and
 * blobs/ETAG.osprey-blocks a line for each block of them that is complete, with its SHA-256. A line
 * is appended after the block was written. After a kill a last line may be torn, and after a loss
 * of power lines may be there whose blocks never reached the disk: so blocks of an earlier run
 * count only after their digest was compared.
 *
 * Both files belong to the holder of the lock of that blob. In a process the caller's mutex
 * protects everything but part_file_write() and part_file_read(). */
#ifndef STORE_HUB_PART_FILE_H
#define STORE_HUB_PART_FILE_H

#include <stdbool.h>

#include "store/hub/hub_digest.h"

enum { PART_BLOCK_BYTES = 4 << 20 /* what a kill loses, for each connection */ };

enum part_state {
    PART_MISSING,
    PART_TAKEN,     /* a connection downloads it */
    PART_INHERITED, /* by an earlier run, not compared yet */
    PART_DONE
};

struct part_file {
    char *path, *journal_path;
    char etag[HUB_ETAG_BYTES_MAX + 1];
    int fd, journal_fd; /* -1: closed */
    int64_t size;
    int n_blocks;
    unsigned char *states;                    /* (n_blocks), enum part_state */
    uint8_t (*digests)[HUB_DIGEST_BYTES_MAX]; /* (n_blocks), of inherited blocks */
};

/* Opens or creates both files in the folder, and reserves space where the file system can. A pair
 * that does not fit together, or belongs to another size, starts empty. */
CHECKED enum osp_status part_file_open(struct part_file *p, const char *folder, const char *etag,
                                       int64_t size);
void part_file_close(struct part_file *p); /* keeps both files; accepts a zeroed object */

int64_t part_file_block_bytes(const struct part_file *p, int block);
CHECKED enum osp_status part_file_write(const struct part_file *p, int64_t offset,
                                        const void *bytes, size_t n_bytes);
CHECKED enum osp_status part_file_read(const struct part_file *p, int64_t offset, void *bytes,
                                       size_t n_bytes);
/* The block is complete. */
CHECKED enum osp_status part_file_mark(struct part_file *p, int block,
                                       const uint8_t digest[HUB_DIGEST_BYTES_MAX]);
/* Forgets all blocks: the whole has a wrong digest, and it is not known which block. */
CHECKED enum osp_status part_file_reset(struct part_file *p);
/* Makes the complete file durable, renames it to blobs/ETAG and removes the journal. */
CHECKED enum osp_status part_file_publish(struct part_file *p, const char *blob_path);

/* Removes both files. */
void part_file_discard(struct part_file *p);

/* Whether one of the files is in the folder, and removing both. For a blob that is complete: after
 * a kill behind the rename, or if another program downloaded it. */
bool part_file_is_left(const char *folder, const char *etag);
void part_file_clean(const char *folder, const char *etag);

/* The bytes that the file of a download in that folder takes on the disk now. */
int64_t part_file_disk_bytes(const char *folder, const char *etag);

#endif
