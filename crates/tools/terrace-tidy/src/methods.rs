//! The types and inherent methods that a file has, and what it calls methods on.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

/// Types that lead to what they hold.
const POINTERS: &[&str] = &[
    "Arc",
    "Box",
    "Rc",
    "Ref",
    "RefMut",
    "MutexGuard",
    "RwLockReadGuard",
    "RwLockWriteGuard",
];

/// What stands for types that have no inherent methods of ours.
const FOREIGN: &str = "";

/// What a method is called on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Receiver {
    /// Something of the type of this name.
    Type(String),
    /// A field of something.
    Field(Box<Receiver>, String),
    /// What a method of something answers.
    Answer(Box<Receiver>, String),
    Unknown,
}

/// The types and inherent methods that a file has, and the calls in it.
#[derive(Clone, Debug, Default)]
pub struct Methods {
    /// The types of fields, by type and name.
    pub fields: BTreeMap<(String, String), String>,
    /// What inherent methods answer, by type and name.
    pub answers: BTreeMap<(String, String), String>,
    /// The types that a type leads to.
    pub targets: BTreeMap<String, String>,
    /// Names of methods of traits.
    pub of_traits: BTreeSet<String>,
    pub calls: BTreeSet<(Receiver, String)>,
}

impl Methods {
    pub fn of(file: &syn::File) -> Methods {
        let mut reader = Reader::default();
        reader.visit_file(file);
        reader.found
    }
}

/// Reads a file from its beginning to its end.
#[derive(Default)]
struct Reader {
    found: Methods,
    /// The type whose impl it is in.
    of: Option<String>,
    /// Names of types that stand for any.
    generics: Vec<String>,
    /// The types of local names.
    locals: BTreeMap<String, Receiver>,
}

impl Reader {
    /// The name of a type, past references and pointers.
    fn name(&self, of: &syn::Type) -> String {
        match of {
            syn::Type::Reference(reference) => self.name(&reference.elem),
            syn::Type::Paren(inner) => self.name(&inner.elem),
            syn::Type::Group(inner) => self.name(&inner.elem),
            syn::Type::Path(path) if path.qself.is_none() => self.name_of_path(&path.path),
            _ => FOREIGN.into(),
        }
    }

    fn name_of_path(&self, path: &syn::Path) -> String {
        let Some(last) = path.segments.last() else {
            return FOREIGN.into();
        };
        let name = last.ident.to_string();
        if POINTERS.contains(&name.as_str())
            && let syn::PathArguments::AngleBracketed(arguments) = &last.arguments
        {
            let held = arguments.args.iter().find_map(|argument| match argument {
                syn::GenericArgument::Type(held) => Some(self.name(held)),
                _ => None,
            });
            return held.unwrap_or_default();
        }
        if name == "Self" {
            return self.of.clone().unwrap_or_default();
        }
        let is_generic = self.generics.contains(&name);
        if is_generic { FOREIGN.into() } else { name }
    }

    fn receiver(&self, expression: &syn::Expr) -> Receiver {
        match expression {
            syn::Expr::Path(path) if path.path.is_ident("self") => {
                Receiver::Type(self.of.clone().unwrap_or_default())
            }
            syn::Expr::Path(path) => path
                .path
                .get_ident()
                .and_then(|name| self.locals.get(&name.to_string()))
                .cloned()
                .unwrap_or(Receiver::Unknown),
            syn::Expr::Field(field) => match &field.member {
                syn::Member::Named(name) => {
                    Receiver::Field(self.receiver(&field.base).into(), name.to_string())
                }
                syn::Member::Unnamed(index) => {
                    Receiver::Field(self.receiver(&field.base).into(), index.index.to_string())
                }
            },
            syn::Expr::MethodCall(call) => Receiver::Answer(
                self.receiver(&call.receiver).into(),
                call.method.to_string(),
            ),
            syn::Expr::Call(call) => match &*call.func {
                syn::Expr::Path(path) => match self.of_type(&path.path) {
                    Some((of, name)) => Receiver::Answer(Receiver::Type(of).into(), name),
                    None => Receiver::Unknown,
                },
                _ => Receiver::Unknown,
            },
            syn::Expr::Struct(made) => Receiver::Type(self.name_of_path(&made.path)),
            syn::Expr::Paren(inner) => self.receiver(&inner.expr),
            syn::Expr::Reference(inner) => self.receiver(&inner.expr),
            syn::Expr::Unary(inner) => self.receiver(&inner.expr),
            _ => Receiver::Unknown,
        }
    }

    /// The type and the name of `Type::name`.
    fn of_type(&self, path: &syn::Path) -> Option<(String, String)> {
        let mut parts = path.segments.iter().rev();
        let (name, of) = (parts.next()?, parts.next()?);
        let of = match of.ident.to_string().as_str() {
            "Self" => self.of.clone()?,
            of => of.into(),
        };
        let is_type = of.starts_with(char::is_uppercase);
        is_type.then(|| (of, name.ident.to_string()))
    }

    /// Reads a function, with the types of its parameters.
    fn function(&mut self, signature: &syn::Signature, read: impl FnOnce(&mut Reader)) {
        let before = self.locals.clone();
        let generics = self.generics.len();
        self.take_generics(&signature.generics);
        for input in &signature.inputs {
            if let syn::FnArg::Typed(input) = input
                && let syn::Pat::Ident(name) = &*input.pat
            {
                let of = Receiver::Type(self.name(&input.ty));
                self.locals.insert(name.ident.to_string(), of);
            }
        }
        read(self);
        self.generics.truncate(generics);
        self.locals = before;
    }

    fn take_generics(&mut self, generics: &syn::Generics) {
        let names = generics.type_params().map(|param| param.ident.to_string());
        self.generics.extend(names);
    }

    fn take_fields(&mut self, of: &syn::Ident, generics: &syn::Generics, fields: &syn::Fields) {
        let before = self.generics.len();
        self.take_generics(generics);
        for (index, field) in fields.iter().enumerate() {
            let name = field.ident.as_ref().map(ToString::to_string);
            let name = name.unwrap_or_else(|| index.to_string());
            let is = self.name(&field.ty);
            self.found.fields.insert((of.to_string(), name), is);
        }
        self.generics.truncate(before);
    }
}

/// Whether something is compiled for tests alone.
fn for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" && !for_tests(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.take_fields(&item.ident, &item.generics, &item.fields);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if for_tests(&item.attrs) {
            return;
        }
        let generics = self.generics.len();
        self.take_generics(&item.generics);
        let of = self.name(&item.self_ty);
        let before = self.of.replace(of.clone());
        for inner in &item.items {
            match inner {
                syn::ImplItem::Fn(method) if item.trait_.is_none() && !for_tests(&method.attrs) => {
                    let answer = match &method.sig.output {
                        syn::ReturnType::Default => FOREIGN.into(),
                        syn::ReturnType::Type(_, answer) => self.name(answer),
                    };
                    let named = (of.clone(), method.sig.ident.to_string());
                    self.found.answers.insert(named, answer);
                }
                syn::ImplItem::Fn(method) if item.trait_.is_some() => {
                    self.found.of_traits.insert(method.sig.ident.to_string());
                }
                syn::ImplItem::Type(target) if target.ident == "Target" => {
                    let target = self.name(&target.ty);
                    self.found.targets.insert(of.clone(), target);
                }
                _ => {}
            }
        }
        syn::visit::visit_item_impl(self, item);
        self.of = before;
        self.generics.truncate(generics);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        for inner in &item.items {
            if let syn::TraitItem::Fn(method) = inner {
                self.found.of_traits.insert(method.sig.ident.to_string());
            }
        }
        let before = self.of.replace(FOREIGN.into());
        syn::visit::visit_item_trait(self, item);
        self.of = before;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !for_tests(&item.attrs) {
            self.function(&item.sig, |reader| {
                syn::visit::visit_block(reader, &item.block)
            });
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !for_tests(&item.attrs) {
            self.function(&item.sig, |reader| {
                syn::visit::visit_block(reader, &item.block)
            });
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(&item.sig, |reader| {
            syn::visit::visit_trait_item_fn(reader, item)
        });
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        syn::visit::visit_local(self, local);
        let (name, of) = match &local.pat {
            syn::Pat::Ident(name) => {
                let made = local.init.as_ref();
                (name, made.map(|made| self.receiver(&made.expr)))
            }
            syn::Pat::Type(typed) => match &*typed.pat {
                syn::Pat::Ident(name) => (name, Some(Receiver::Type(self.name(&typed.ty)))),
                _ => return,
            },
            _ => return,
        };
        if let Some(of) = of {
            self.locals.insert(name.ident.to_string(), of);
        }
    }

    // A name that is given anew is something else.
    fn visit_pat_ident(&mut self, name: &'ast syn::PatIdent) {
        self.locals.remove(&name.ident.to_string());
        syn::visit::visit_pat_ident(self, name);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let receiver = self.receiver(&call.receiver);
        self.found.calls.insert((receiver, call.method.to_string()));
        syn::visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        if let Some((of, name)) = self.of_type(&path.path) {
            self.found.calls.insert((Receiver::Type(of), name));
        }
        syn::visit::visit_expr_path(self, path);
    }
}
