#include <mezzo/mezzo.h>
#include <doctest/doctest.h>
