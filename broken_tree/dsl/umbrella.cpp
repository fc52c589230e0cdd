#include <mezzo/mezzo.h>
