// SPDX-License-Identifier: Apache-2.0
// All device functions of elementwise ops and random numbers: `dev_<op name>(emitter,
// operands...)`.
#pragma once

#include <mezzo/codegen/scalar_activation.h>
#include <mezzo/codegen/scalar_basic.h>
#include <mezzo/codegen/scalar_division.h>
#include <mezzo/codegen/scalar_exp_log.h>
#include <mezzo/codegen/scalar_gamma.h>
#include <mezzo/codegen/scalar_gate.h>
#include <mezzo/codegen/scalar_hyperbolic.h>
#include <mezzo/codegen/scalar_inverse_trig.h>
#include <mezzo/codegen/scalar_piecewise.h>
#include <mezzo/codegen/scalar_pow.h>
#include <mezzo/codegen/scalar_random.h>
#include <mezzo/codegen/scalar_root.h>
#include <mezzo/codegen/scalar_trig.h>
