/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for the interposer: something that can be preloaded. */
extern int caisson_test_shim;
int caisson_test_shim = 1;
