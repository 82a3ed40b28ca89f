/* SPDX-License-Identifier: MIT */
/*
 * What torch.save makes of a state dict, pytorch_model.bin, read from memory. Two layouts:
 *
 *   ZIP     (PyTorch from 1.6 on)  stored entries of one folder, whatever its name:
 *             data.pkl      the pickle of the state dict
 *             data/KEY      a storage's numbers
 *             byteorder     "little", or not there; other entries are not looked at
 *   legacy  one after another: four pickles, of the number 0x1950a86a20f9469cfc6c, of the number
 *             1001, of a dict that tells the byte order, and of the state dict; a pickle of the
 *             list of storage keys; for each key in this order the number of elements, 8 bytes, and
 *             the elements
 *
 * A state dict is a dict of tensors by name, or {"state_dict": such a dict} or
 * {"model_state_dict": such a dict} with other things beside it. A tensor is a part of a storage:
 * an offset, a shape, and a stride for each dimension. Several may share one.
 */
#ifndef KMF_TORCHFILE_H
#define KMF_TORCHFILE_H

#include "model/safetensors.h"

typedef struct kmf_torchfile {
    kmf_stored *tensors; /* owned [n], by name */
    size_t n;
    char *names;           /* owned; the tensors' */
    unsigned char *copies; /* owned; values that are not row-major in the file */
} kmf_torchfile;

/* Do the bytes begin as a file of either layout does? */
bool kmf_torchfile_begins(const unsigned char *bytes, size_t len);

/*
 * Nothing in the file is run. Memory is proportional to the pickle's length, and to the file's
 * where tensors must be copied. KMF_EMODEL says what is damaged or not read; name is the file's.
 * bytes must outlive *file. On failure *file needs no free.
 */
int kmf_torchfile_parse(kmf_torchfile *file, const unsigned char *bytes, size_t len,
                        const char *name, kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed one. */
void kmf_torchfile_free(kmf_torchfile *file);

#endif
