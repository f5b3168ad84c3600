//! The graph as a flat node table.

use std::borrow::Cow;
use std::ops::Range;

use relax_base::Span;
use relax_ops::Release;
use rustc_hash::FxHashMap;

use crate::error::{Found, Mistake, codes};
use crate::kinds::{Kind, Sort};
use crate::scan::{Scan, Text};

/// The amount of file data read after which pages are released.
const CHUNK: usize = 16 << 20;

/// The index of a node.
pub(crate) type NodeId = u32;

/// A node: its kind, and the ranges of its lists in the graph's pools.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) kind: u16,
    /// The byte offset of its kind.
    pub(crate) at: u32,
    attrs: (u32, u32),
    keys: (u32, u32),
    data: (u32, u32),
    repr: Option<(Text, bool)>,
}

/// A JSON graph: a table of nodes that borrows the bytes of its file.
#[derive(Debug)]
pub struct Graph<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) root: NodeId,
    pub(crate) release: Release,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) nodes: Vec<Node>,
    names: Vec<Box<str>>,
    attrs: Vec<(u16, Text)>,
    keys: Vec<Text>,
    data: Vec<NodeId>,
    /// The ranges of the tensors' texts.
    pub(crate) tensors: Vec<Range<usize>>,
    /// The offset where the tensors' texts begin.
    shown: usize,
    /// Whether the graph states the version that wrote it.
    pub(crate) versioned: bool,
}

/// Interned names of kinds or fields.
#[derive(Default)]
struct Names<'a> {
    known: FxHashMap<Cow<'a, [u8]>, u16>,
}

impl<'a> Names<'a> {
    /// Interns a name; `None` if there are too many.
    fn number(&mut self, bytes: Cow<'a, [u8]>, new: impl FnOnce(&str)) -> Option<u16> {
        if let Some(&n) = self.known.get(&*bytes) {
            return Some(n);
        }
        let n = u16::try_from(self.known.len()).ok()?;
        new(&String::from_utf8_lossy(&bytes));
        self.known.insert(bytes, n);
        Some(n)
    }
}

impl<'a> Graph<'a> {
    /// Scans the node table. `unneeded` is called with byte ranges that only tensors need.
    ///
    /// # Errors
    /// The bytes are not a JSON graph.
    pub fn scan(bytes: &'a [u8], unneeded: &dyn Fn(Range<usize>)) -> Result<Graph<'a>, Mistake> {
        let mut reader = Reader {
            scan: Scan::new(bytes),
            kinds: Names::default(),
            fields: Names::default(),
            unneeded,
        };
        let mut graph = Graph {
            bytes,
            root: 0,
            release: Release(12),
            kinds: Vec::new(),
            nodes: Vec::new(),
            names: Vec::new(),
            attrs: Vec::new(),
            keys: Vec::new(),
            data: Vec::new(),
            tensors: Vec::new(),
            shown: bytes.len(),
            versioned: false,
        };
        reader.graph(&mut graph)?;
        Ok(graph)
    }

    /// Returns the length of the part of the file that is worth showing to users: up to the
    /// tensors.
    pub fn shown(&self) -> usize {
        self.shown
    }

    /// Returns the release that wrote the graph, if it says so.
    pub fn release(&self) -> Option<Release> {
        self.versioned.then_some(self.release)
    }

    /// Returns the node at or before a byte offset, and its kind, for messages.
    pub fn node_at(&self, at: u64) -> Option<(usize, &str)> {
        let after = self.nodes.partition_point(|n| u64::from(n.at) <= at);
        let id = after.checked_sub(1)?;
        Some((id, &self.kinds[usize::from(self.nodes[id].kind)].name))
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    pub(crate) fn kind(&self, id: NodeId) -> &Kind {
        &self.kinds[usize::from(self.node(id).kind)]
    }

    pub(crate) fn sort(&self, id: NodeId) -> Sort {
        self.kind(id).sort
    }

    /// Returns the span of a node's kind, in a source that begins at position `start`.
    pub(crate) fn span(&self, start: u32, id: NodeId) -> Span {
        let at = start.saturating_add(self.node(id).at);
        Span::new(at, at.saturating_add(self.kind(id).len))
    }

    /// Returns the elements of an array, or the values of a map.
    pub(crate) fn data(&self, id: NodeId) -> &[NodeId] {
        let (from, to) = self.node(id).data;
        &self.data[from as usize..to as usize]
    }

    /// Iterates over the keys of a map with string keys.
    pub(crate) fn keys(&self, id: NodeId) -> impl Iterator<Item = Cow<'a, str>> + '_ {
        let (from, to) = self.node(id).keys;
        self.keys[from as usize..to as usize]
            .iter()
            .map(|t| lossy(t.bytes(self.bytes)))
    }

    /// Iterates over the fields of a node, with their names.
    pub(crate) fn fields(&self, id: NodeId) -> impl Iterator<Item = (&str, Cow<'a, str>)> + '_ {
        let (from, to) = self.node(id).attrs;
        self.attrs[from as usize..to as usize]
            .iter()
            .map(|&(name, text)| {
                let name = &*self.names[usize::from(name)];
                (name, lossy(text.bytes(self.bytes)))
            })
    }

    /// Returns the raw text of a node's field.
    pub(crate) fn field(&self, id: NodeId, name: &str) -> Option<Cow<'a, str>> {
        let (from, to) = self.node(id).attrs;
        self.attrs[from as usize..to as usize]
            .iter()
            .find(|a| *self.names[usize::from(a.0)] == *name)
            .map(|a| lossy(a.1.bytes(self.bytes)))
    }

    /// Returns the text that represents a node.
    pub(crate) fn repr(&self, id: NodeId) -> Option<Cow<'a, str>> {
        match self.node(id).repr {
            Some((text, false)) => Some(lossy(text.bytes(self.bytes))),
            Some((text, true)) => {
                let bytes = base64_simd::STANDARD
                    .decode_to_vec(text.bytes(self.bytes))
                    .ok()?;
                let len = bytes.get(..8)?.try_into().ok()?;
                let len = usize::try_from(u64::from_le_bytes(len)).ok()?;
                let inside = bytes.get(8..8usize.checked_add(len)?)?;
                Some(String::from_utf8_lossy(inside).into_owned().into())
            }
            None => None,
        }
    }

    /// Returns the raw text of a node that is represented by text, and whether it is in base64.
    pub(crate) fn written_repr(&self, id: NodeId) -> Option<(Cow<'a, str>, bool)> {
        let (text, base64) = self.node(id).repr?;
        Some((lossy(text.bytes(self.bytes)), base64))
    }

    /// Creates an error in a node.
    pub(crate) fn mistake(&self, id: NodeId, message: impl AsRef<str>) -> Mistake {
        self.mistake_of(codes::BAD_NODE, id, message)
    }

    /// Creates an error in a node, with the given code.
    pub(crate) fn mistake_of(
        &self,
        code: relax_base::Code,
        id: NodeId,
        message: impl AsRef<str>,
    ) -> Mistake {
        let at = self.node(id).at;
        let name = &self.kind(id).name;
        let message = format!("{} (node {id}, byte {at})", message.as_ref());
        let what = if name.is_empty() { "null" } else { name };
        Mistake::new(code, at.into(), message).label(format!("node {id}, `{what}`"))
    }
}

fn lossy(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(b) => String::from_utf8_lossy(b),
        Cow::Owned(b) => String::from_utf8_lossy(&b).into_owned().into(),
    }
}

struct Reader<'a, 'u> {
    scan: Scan<'a>,
    kinds: Names<'a>,
    fields: Names<'a>,
    unneeded: &'u dyn Fn(Range<usize>),
}

impl<'a> Reader<'a, '_> {
    fn graph(&mut self, g: &mut Graph<'a>) -> Found<()> {
        if self.scan.peek() != Some(b'{') {
            let begins = if self.scan.at == g.bytes.len() {
                "the file is empty"
            } else {
                "no object begins here"
            };
            return Err(self
                .scan
                .mistake("this is no JSON graph of TVM")
                .label(begins));
        }
        let (mut root, mut nodes) = (None, false);
        let mut more = self.scan.inside(b'{', b'}')?;
        while more {
            let key = self.key()?;
            match &*key {
                b"root" => {
                    self.scan.peek();
                    let at = self.scan.at;
                    root = Some((self.scan.number()?, at));
                }
                b"nodes" => {
                    nodes = true;
                    self.nodes(g)?;
                }
                b"b64ndarrays" => {
                    g.shown = g.shown.min(self.scan.at);
                    self.tensors(g)?;
                }
                b"attrs" => self.version(g)?,
                _ => self.scan.skip()?,
            }
            more = self.scan.more(b'}')?;
        }
        let Some((root, at)) = root else {
            return Err(self.scan.mistake("the JSON graph has no `root`"));
        };
        if !nodes {
            return Err(self.scan.mistake("the JSON graph has no `nodes`"));
        }
        g.root = root;
        if root as usize >= g.nodes.len() {
            let message = format!(
                "the root is node {root}, but there are {} nodes",
                g.nodes.len()
            );
            return Err(Mistake::new(codes::BAD_NODE, at as u64, message).label("the root"));
        }
        self.references(g)
    }

    /// Checks that all lists refer to existing nodes, and that maps have as many keys as values.
    fn references(&self, g: &Graph<'a>) -> Found<()> {
        let count = g.nodes.len();
        for id in 0..count as NodeId {
            if let Some(&bad) = g.data(id).iter().find(|&&d| d as usize >= count) {
                let message =
                    format!("an element refers to node {bad}, but there are {count} nodes");
                return Err(g.mistake(id, message));
            }
            let keys = g.node(id).keys;
            let (keys, values) = ((keys.1 - keys.0) as usize, g.data(id).len());
            if keys != 0 && keys != values {
                let message = format!("a map has {keys} keys and {values} values");
                return Err(g.mistake(id, message));
            }
        }
        Ok(())
    }

    fn key(&mut self) -> Found<Cow<'a, [u8]>> {
        let key = self.scan.string()?.bytes(self.scan.bytes);
        self.scan.take(b':')?;
        Ok(key)
    }

    fn nodes(&mut self, g: &mut Graph<'a>) -> Found<()> {
        let mut more = self.scan.inside(b'[', b']')?;
        while more {
            let node = self.node(g)?;
            g.nodes.push(node);
            more = self.scan.more(b']')?;
        }
        Ok(())
    }

    fn node(&mut self, g: &mut Graph<'a>) -> Found<Node> {
        let mut node = Node::default();
        let mut kind = None;
        self.scan.peek();
        node.at = u32::try_from(self.scan.at).map_err(|_| {
            self.scan
                .mistake("the nodes of a JSON graph may take 4 GiB")
        })?;
        let mut more = self.scan.inside(b'{', b'}')?;
        while more {
            let key = self.key()?;
            match &*key {
                b"type_key" => {
                    let text = self.scan.string()?;
                    node.at = text.start;
                    kind = Some(text.bytes(self.scan.bytes));
                }
                b"attrs" => {
                    let from = g.attrs.len() as u32;
                    self.attrs(g)?;
                    node.attrs = (from, g.attrs.len() as u32);
                }
                b"keys" => {
                    let from = g.keys.len() as u32;
                    let mut more = self.scan.inside(b'[', b']')?;
                    while more {
                        g.keys.push(self.scan.string()?);
                        more = self.scan.more(b']')?;
                    }
                    node.keys = (from, g.keys.len() as u32);
                }
                b"data" => {
                    let from = g.data.len() as u32;
                    let mut more = self.scan.inside(b'[', b']')?;
                    while more {
                        g.data.push(self.scan.number()?);
                        more = self.scan.more(b']')?;
                    }
                    node.data = (from, g.data.len() as u32);
                }
                b"repr_str" | b"global_key" => node.repr = Some((self.scan.string()?, false)),
                b"repr_b64" => node.repr = Some((self.scan.string()?, true)),
                _ => self.scan.skip()?,
            }
            more = self.scan.more(b'}')?;
        }
        let name = kind.unwrap_or_default();
        let number = self
            .kinds
            .number(name, |name| g.kinds.push(Kind::new(name)));
        node.kind = number.ok_or_else(|| {
            self.scan
                .mistake("the JSON graph has too many kinds of nodes")
        })?;
        Ok(node)
    }

    fn attrs(&mut self, g: &mut Graph<'a>) -> Found<()> {
        let mut more = self.scan.inside(b'{', b'}')?;
        while more {
            let key = self.key()?;
            let number = self.fields.number(key, |name| g.names.push(name.into()));
            let number = number.ok_or_else(|| {
                self.scan
                    .mistake("the JSON graph has too many names of fields")
            })?;
            g.attrs.push((number, self.scan.string()?));
            more = self.scan.more(b'}')?;
        }
        Ok(())
    }

    fn tensors(&mut self, g: &mut Graph<'a>) -> Found<()> {
        let mut more = self.scan.inside(b'[', b']')?;
        let mut kept = self.scan.at;
        while more {
            let (start, end, _) = self.scan.raw_string()?;
            g.tensors.push(start..end);
            while self.scan.at - kept > CHUNK {
                (self.unneeded)(kept..kept + CHUNK);
                kept += CHUNK;
            }
            more = self.scan.more(b']')?;
        }
        Ok(())
    }

    fn version(&mut self, g: &mut Graph<'a>) -> Found<()> {
        let mut more = self.scan.inside(b'{', b'}')?;
        while more {
            let key = self.key()?;
            if &*key == b"tvm_version" && self.scan.peek() == Some(b'"') {
                let text = lossy(self.scan.string()?.bytes(self.scan.bytes));
                // An unknown version is read as the last one whose layout is known.
                g.versioned = text.parse::<Release>().is_ok();
                g.release = text.parse().unwrap_or(Release::LAST);
            } else {
                self.scan.skip()?;
            }
            more = self.scan.more(b'}')?;
        }
        Ok(())
    }
}
