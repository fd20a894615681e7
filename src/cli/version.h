/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Given by the build; a file that is checked outside of it still compiles. */
#ifndef CAISSON_VERSION
#define CAISSON_VERSION "unknown"
#endif
