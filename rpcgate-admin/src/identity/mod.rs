//! Who somebody is, and how that is shown: passwords, tokens, challenges, roles.
