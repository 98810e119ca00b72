//! Every call to the kernel that std and mio do not offer.
