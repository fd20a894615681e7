/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/qmp.h"

#include "base/check.h"
#include "vmm/shim_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qmp_line l = { 0 };
	struct err e = { 0 };
	struct shim_image_done done;
	struct buf b;
	int r;

	if (qmp_line_parse(data, size, &l, &e) == 0) {
		CHECK(l.obj && l.kind <= QMP_EVENT);
		CHECK((l.kind != QMP_EVENT && l.kind != QMP_ERROR) || l.name);
		CHECK(l.kind != QMP_ERROR || l.text);
	} else {
		CHECK(e.code == -EBADMSG);
	}
	qmp_line_fini(&l);

	/* the other thing that a VMM's process writes */
	buf_init(&b, 1 << 20);
	if (size < 1 << 20 && buf_put(&b, data, size) == 0) {
		r = shim_image_parse(&b, true, 1 << 24, &done);
		CHECK(r != SHIM_IMAGE_MORE);
		CHECK(r < 0 ||
		      (done.bytes <= 1 << 24 &&
		       buf_len(&b) >= done.n_runs * sizeof(struct shim_run)));
	}
	buf_fini(&b);
	return 0;
}
