//! Gives the shared library the name that programs find it by, and keeps it loaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libfrs.so.1");
    // A program may have kept the address of the library's SIGBUS handler, so dlclose must not
    // unload it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
