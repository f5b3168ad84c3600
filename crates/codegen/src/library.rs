//! Shared libraries of compiled code over the runtime of this process.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

use crate::{Entry, Error};

/// The symbol of a library's self-description: a NUL-terminated text.
pub const DESCRIPTION: &str = "relax_description";
/// A symbol whose address shows whether a library uses this process's runtime.
const OF_THE_RUNTIME: &str = "rx_context_create";

/// Returns the fingerprint of the runtime that compiled code of this version requires.
#[must_use]
pub fn runtime_sources() -> &'static str {
    relax_runtime::SOURCES
}

/// A loaded library. Its code stays in memory: threads of the runtime may still run it when there
/// are no references to it.
#[derive(Debug)]
pub struct Library {
    handle: *mut c_void,
}

// SAFETY: a handle may be asked for symbols from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Loads a library.
    ///
    /// # Safety
    /// Loading runs the library's initialisers, and its entries are assumed to be what their names
    /// say: the file is trusted.
    ///
    /// # Errors
    /// [`Error::Load`]: it cannot be loaded, or has a runtime of its own.
    pub unsafe fn open(path: &Path) -> Result<Library, Error> {
        let refused = |why: &str| Error::Load(why.to_owned());
        let name = path.as_os_str().as_encoded_bytes();
        let name = CString::new(name).map_err(|_| refused("a path has no zero byte"))?;
        // SAFETY: the name ends with a zero, and what the library runs when it is loaded may run
        // here.
        let handle = unsafe { sys::open(&name) };
        if handle.is_null() {
            return Err(Error::Load(sys::error()));
        }
        let library = Library { handle };
        let ours = (relax_runtime::symbols().into_iter()).find(|s| s.0 == OF_THE_RUNTIME);
        match (library.symbol(OF_THE_RUNTIME), ours) {
            (Some(theirs), Some((_, ours))) if theirs.cast_const().cast() == ours => Ok(library),
            _ => Err(refused("it has a runtime of its own")),
        }
    }

    fn symbol(&self, name: &str) -> Option<*mut c_void> {
        let name = CString::new(name).ok()?;
        // SAFETY: the handle is open, the text ends.
        let found = unsafe { sys::symbol(self.handle, &name) };
        (!found.is_null()).then_some(found)
    }

    /// Returns the library's self-description.
    #[must_use]
    pub fn description(&self) -> Option<String> {
        let at = self.symbol(DESCRIPTION)?.cast::<c_char>();
        // SAFETY: the symbol is a text that ends in a zero byte, as its maker promises.
        let text = unsafe { CStr::from_ptr(at) };
        Some(text.to_string_lossy().into_owned())
    }

    /// The entry of a global function, by its symbol.
    #[must_use]
    pub fn entry(&self, symbol: &str) -> Option<Entry> {
        // SAFETY: symbols of entries are functions with this signature.
        let entry = |at| unsafe { std::mem::transmute::<*mut c_void, Entry>(at) };
        self.symbol(symbol).map(entry)
    }
}

#[cfg(unix)]
mod sys {
    use std::ffi::{CStr, c_void};

    pub unsafe fn open(name: &CStr) -> *mut c_void {
        // SAFETY: the name ends with a zero, and what the library runs when it is loaded may run
        // here.
        unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }
    }

    pub unsafe fn symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
        // SAFETY: `handle` is that of an open library, and the name ends with a zero.
        unsafe { libc::dlsym(handle, name.as_ptr()) }
    }

    pub fn error() -> String {
        // SAFETY: the text is that of this thread's last call.
        let said = unsafe { libc::dlerror() };
        if said.is_null() {
            return "it cannot be loaded".to_owned();
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(said) }
            .to_string_lossy()
            .into_owned()
    }
}

#[cfg(not(unix))]
mod sys {
    use std::ffi::{CStr, c_void};

    pub unsafe fn open(_: &CStr) -> *mut c_void {
        std::ptr::null_mut()
    }

    pub unsafe fn symbol(_: *mut c_void, _: &CStr) -> *mut c_void {
        std::ptr::null_mut()
    }

    pub fn error() -> String {
        "libraries are not loaded on this system".to_owned()
    }
}
