"""What an agent computes alone: argmin of f_i + g_i plus terms of the method."""
