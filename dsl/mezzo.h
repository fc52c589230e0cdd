// SPDX-License-Identifier: Apache-2.0
// Everything that a program needs: `#include <mezzo/mezzo.h>`.
#pragma once

#include <mezzo/dsl/attention.h>
#include <mezzo/dsl/data.h>
#include <mezzo/dsl/elementwise.h>
#include <mezzo/dsl/gradients.h>
#include <mezzo/dsl/indexing.h>
#include <mezzo/dsl/initializers.h>
#include <mezzo/dsl/jit.h>
#include <mezzo/dsl/linear_algebra.h>
#include <mezzo/dsl/losses.h>
#include <mezzo/dsl/metrics.h>
#include <mezzo/dsl/movement.h>
#include <mezzo/dsl/nn.h>
#include <mezzo/dsl/nn_attention.h>
#include <mezzo/dsl/nn_norms.h>
#include <mezzo/dsl/nn_recurrent.h>
#include <mezzo/dsl/nn_windows.h>
#include <mezzo/dsl/norms.h>
#include <mezzo/dsl/ops.h>
#include <mezzo/dsl/optim.h>
#include <mezzo/dsl/precision.h>
#include <mezzo/dsl/random.h>
#include <mezzo/dsl/reductions.h>
#include <mezzo/dsl/schedules.h>
#include <mezzo/dsl/trainer.h>
#include <mezzo/dsl/windows.h>
#include <mezzo/ir/error.h>
