"""A recorded step becomes a plan and a report, or a refusal that says what would fit."""
