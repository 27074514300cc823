// The limits of this machine, measured: what fractions of a limit are reported against. Each call
// takes less than a second.
#pragma once

namespace kvgate::kernels::cpu {

// Bytes per second that num_threads threads read from memory together: the best of several passes
// over 512 MiB. 0 when that memory is not there.
double MeasureReadBandwidth(int num_threads);

// f32 operations per second of num_threads threads together on the best SIMD target, a fused
// multiply-add being two: the best of several passes over registers.
double MeasureFmaPeak(int num_threads);

// int8 operations per second of num_threads threads together in the tiles of AMX; 0 without.
double MeasureTilePeak(int num_threads);

}  // namespace kvgate::kernels::cpu
