// A small library with functions in each other, by which the fuzzing of the readers of debug information begins.

static inline __attribute__((always_inline)) int innermost(int number) { return number * 3 + 1; }

static inline __attribute__((always_inline)) int middle(int number) {
  if (number > 5) {
    int half = innermost(number / 2);
    return innermost(half) ^ number;
  }
  return innermost(number);
}

int outer(int number) {
  int sum = 0;
  for (int i = 0; i < number; i++) sum += middle(i);
  return sum;
}

int other(const int *numbers, int count) { return count > 0 ? outer(numbers[0]) + middle(count) : 0; }
