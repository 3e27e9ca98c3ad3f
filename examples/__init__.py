"""Networks to try the convertor on: two trained on handwritten digits, and a zoo of well-known architectures."""
