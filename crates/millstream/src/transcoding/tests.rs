//! The pool with codecs that do as they are told.
