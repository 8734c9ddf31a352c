/* Opens a safetensors file: mapped, or in memory. */
#include "store/safetensors.h"

#include "store/st_header.h"

enum { NAME_BYTES_TOTAL_MAX = 2 * SAFETENSORS_HEADER_BYTES_MAX }; /* names with their padding */

enum osp_status safetensors_from_bytes(struct st_file *out, const char *path, const void *bytes,
                                       size_t size_bytes)
{
    enum osp_status st;

    st_file_init(out, path, NAME_BYTES_TOTAL_MAX);
    out->size_bytes = size_bytes;
    st = st_header_read(out, bytes);
    if (st != OSP_OK)
        st_file_close(out);
    return st;
}

enum osp_status safetensors_open(struct st_file *out, const char *path)
{
    enum osp_status st;

    st_file_init(out, path, NAME_BYTES_TOTAL_MAX);
    TRY(st_file_map(out));
    TRY(st_header_read(out, out->map.data));
out:
    if (st != OSP_OK)
        st_file_close(out);
    return st;
}
