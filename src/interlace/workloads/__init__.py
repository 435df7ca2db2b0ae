"""What runs inside the ranks: torch and accelerate live here and only here."""
