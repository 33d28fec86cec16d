"""What everything stands on: arrays, components, basis functions, words, memory, errors."""
