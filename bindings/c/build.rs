//! Gives the shared library the name that programs find it by.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libfrs.so.1");
}
