#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Goal: the compiled filter and a deliberately simple evaluator agree, on verdicts and on what is invalid.

Method: random expressions (a share of them damaged), parameters and samples over the types of
filter_types.h. This file has its own tokens, its own parser (the split-at-top-level scheme), its own
exact arithmetic and its own CDR encoder; the C side (filter_driver) gets text and bytes only. Samples
come in XCDR1 and XCDR2, both byte orders, some cut short, some of an older appendable type.

usage: filter_oracle.py DRIVER [TRIPLES [SEED]]
"""
import math
import random
import re
import struct
import subprocess
import sys
from fractions import Fraction

# ---- types: (kind, …) ---------------------------------------------------------------------------

INTEGERS = {'i8': (1, True), 'u8': (1, False), 'i16': (2, True), 'u16': (2, False), 'i32': (4, True),
            'u32': (4, False), 'i64': (8, True), 'u64': (8, False)}
MOOD = ('enum', {'CALM': 0, 'BUSY': 1, 'IDLE': 7, 'ANGRY': -3})
INNER = ('struct', False, [('p', ('i32',)), ('q', ('string', 0)), ('r', ('f64',))])
OPEN = ('struct', True, [('a', ('i16',)), ('s', ('string', 0)), ('u', ('u64',))])
SHAPE = ('struct', False, [('color', ('string', 128)), ('x', ('i32',)), ('y', ('i32',)),
                           ('shapesize', ('i32',))])
SCALARS = ('struct', False, [
    ('b', ('bool',)), ('u16', ('u16',)), ('c', ('char',)), ('u64', ('u64',)), ('i8', ('i8',)),
    ('i32', ('i32',)), ('u8', ('u8',)), ('f64', ('f64',)), ('o', ('u8',)), ('i16', ('i16',)),
    ('u32', ('u32',)), ('f32', ('f32',)), ('i64', ('i64',)), ('e', MOOD), ('m8', ('bitmask', 5)),
    ('m64', ('bitmask', 64)), ('s', ('string', 16)), ('t', ('string', 0)), ('b2', ('bool',))])
DEEP = ('struct', True, [
    ('head', ('string', 0)), ('in', INNER), ('ina', OPEN), ('v', ('seq', ('i16',), 6)), ('e', MOOD),
    ('arr', ('array', OPEN, 2)), ('seq', ('seq', INNER, 3)), ('names', ('seq', ('string', 0), 4)),
    ('moods', ('array', MOOD, 3)), ('last', ('f64',)), ('tail', ('i8',))])
MIXED = ('struct', False, [
    ('raw', ('seq', ('u8',), 8)), ('in', INNER), ('ina', OPEN), ('pair', ('array', ('string', 0), 2)),
    ('after', ('i64',)), ('triple', ('array', ('u64',), 3)), ('f', ('f32',)), ('w', ('seq', ('f64',), 3)), ('seqa', ('seq', OPEN, 4)),
    ('z', ('u8',))])
CHOICE = ('union', {1: 'i', 2: 's', -2: 's', 3: 'in'}, 'f',
          {'i': ('i64',), 's': ('string', 0), 'in': INNER, 'f': ('f32',)})
RICH = ('struct', False, [
    ('oi', ('opt', ('i32',))), ('os', ('opt', ('string', 0))), ('u', CHOICE), ('oin', ('opt', INNER)),
    ('names', ('seq', ('string', 0), 4)), ('points', ('seq', INNER, 3)), ('arr', ('array', ('i16',), 4)),
    ('ow', ('opt', ('seq', ('f64',), 3))), ('od', ('opt', ('f64',))), ('text', ('string', 0))])
OPTIONAL_IDS = {'oi': 1, 'os': 9, 'oin': 49, 'ow': 97, 'od': 105}
TYPES = [SHAPE, SCALARS, DEEP, MIXED, RICH]
KEYWORDS = {'AND', 'OR', 'NOT', 'BETWEEN', 'TRUE', 'FALSE', 'LIKE', 'MATCH', 'IN', 'IS', 'NULL', 'ESCAPE'}


COMPOSITE = ('struct', 'union', 'seq', 'array')
UNBOUNDED = (('i16',), INNER, ('string', 0))  # elements of the sequences without a bound


def plain(type_):
    return type_[1] if type_[0] == 'opt' else type_


def part_of(type_, part):
    """Type of one part of a composite, `part` being a name or an index; or None."""
    kind = type_[0]
    if isinstance(part, int):
        if kind == 'seq' and (part < type_[2] or type_[1] in UNBOUNDED) or kind == 'array' and part < type_[2]:
            return type_[1]
        return None
    if kind == 'struct':
        return plain(dict(type_[2]).get(part, (None,)))
    if kind == 'union':
        return ('i32',) if part == '_d' else type_[3].get(part)
    return ('u32',) if kind in ('seq', 'string') and part == 'length' else None


def split_path(path):
    return [int(i) if i else name for name, i in re.findall(r'([A-Za-z_]\w*)|\[([0-9]+)\]', path)]


def find_any(type_, path):
    """The type of any part, or None."""
    for part in split_path(path):
        type_ = part_of(type_, part)
        if not type_ or type_[0] is None:
            return None
    return type_


def find(type_, path):
    """The type of a number or string, or None."""
    found = find_any(type_, path)
    return found if found and found[0] not in COMPOSITE else None


def paths(type_, prefix=''):
    """All parts of a type; of unbounded sequences one element more than samples have."""
    kind = type_[0]
    parts = {'struct': lambda: [n for n, _ in type_[2]], 'union': lambda: ['_d', *type_[3]],
             'array': lambda: range(type_[2]), 'string': lambda: ['length'],
             'seq': lambda: ['length', *range(type_[2] + (type_[1] in UNBOUNDED))]}.get(kind, lambda: [])
    for part in parts():
        path = f'{prefix}[{part}]' if isinstance(part, int) else f'{prefix}.{part}'.lstrip('.')
        yield path
        yield from paths(part_of(type_, part), path)


PATHS = {id(t): list(paths(t)) for t in TYPES}
LEAVES = {i: [(p, find(t, p)) for p in PATHS[i] if find(t, p)] for i, t in zip(PATHS, TYPES)}


def leaves(type_):
    return LEAVES[id(type_)]


def class_of(type_):
    return 'integer' if type_[0] in INTEGERS else 'float' if type_[0] in ('f32', 'f64') else type_[0]


# ---- values and their CDR -----------------------------------------------------------------------

FLOATS = [0.0, -0.0, 1.0, -1.0, 1.5, 0.1, -2.5, 3.0, 1e10, -1e300, math.inf, -math.inf, math.nan,
          5e-324, -5e-324, 2.0**53, 2.0**53 + 2, 2.0**63, -2.0**63, 2.0**64, 2.0**31, 1e22, 1.7976931348623157e308,
          struct.unpack('<f', struct.pack('<f', 0.1))[0], 1e-45, 255.0, 1e30]
WORDS = ['', 'A', 'B', 'RED', 'GREEN', 'BLUE', 'RE', 'REDDER', "it's", 'a b', 'zz', 'caf\u00e9', '%0', 'CALM']


def zero(type_):
    kind = type_[0]
    if kind == 'string':
        return b''
    if kind in ('f32', 'f64'):
        return 0.0
    if kind in ('seq', 'opt'):
        return [] if kind == 'seq' else None
    if kind == 'array':
        return [zero(type_[1]) for _ in range(type_[2])]
    if kind == 'struct':
        return {name: zero(member) for name, member in type_[2]}
    return b'\0' if kind == 'char' else False if kind == 'bool' else 0


def random_value(rng, type_):
    kind = type_[0]
    if kind in INTEGERS:
        size, signed = INTEGERS[kind]
        low, high = (-(1 << (8 * size - 1)), (1 << (8 * size - 1)) - 1) if signed else (0, (1 << 8 * size) - 1)
        return rng.choice([low, low + 1, high, high - 1, 0, 1, 2, 3, 5, max(low, -1), rng.randint(0, 9),
                           rng.randint(low, high)])
    if kind == 'bool':
        return rng.random() < 0.5
    if kind == 'char':
        return rng.choice([b'A', b'B', b"'", b'z', b' ', b'\xe9', b'5'])
    if kind == 'f64':
        return rng.choice(FLOATS + [rng.uniform(-10, 10), float(rng.randint(-5, 5))])
    if kind == 'f32':
        v = rng.choice(FLOATS + [rng.uniform(-10, 10), float(rng.randint(-5, 5))])
        try:
            return struct.unpack('<f', struct.pack('<f', v))[0]
        except OverflowError:
            return math.inf
    if kind == 'enum':
        return rng.choice(list(type_[1].values()) + [2, -1])
    if kind == 'bitmask':
        return rng.getrandbits(type_[1]) if rng.random() < 0.5 else rng.choice([0, 1, 3, (1 << type_[1]) - 1])
    if kind == 'string':
        text = rng.choice(WORDS).encode()
        return text[:type_[1]] if type_[1] else text
    if kind == 'seq':
        return [random_value(rng, type_[1]) for _ in range(rng.randint(0, type_[2]))]
    if kind == 'array':
        return [random_value(rng, type_[1]) for _ in range(type_[2])]
    if kind == 'opt':
        return None if rng.random() < 0.4 else random_value(rng, type_[1])
    if kind == 'union':
        d = rng.choice([1, 2, -2, 3, 0, 77])
        return d, random_value(rng, type_[3][type_[1].get(d, type_[2])])
    return {name: random_value(rng, member) for name, member in type_[2]}


class Encoder:
    """CDR by the letter: writes values, remembers where each leaf ends."""

    def __init__(self, xcdr2, big):
        self.xcdr2, self.order, self.out, self.ends = xcdr2, '>' if big else '<', bytearray(), {}

    def put(self, fmt, size, value):
        align = min(size, 4) if self.xcdr2 else size
        self.out += bytes(-len(self.out) % align)
        self.out += struct.pack(self.order + fmt, value)

    def delimited(self, write):
        self.put('I', 4, 0)
        at = len(self.out)
        write()
        self.out[at - 4:at] = struct.pack(self.order + 'I', len(self.out) - at)

    def value(self, type_, v, path=None):
        kind = type_[0]
        if kind in INTEGERS:
            size, signed = INTEGERS[kind]
            self.put({1: 'b', 2: 'h', 4: 'i', 8: 'q'}[size] if signed else {1: 'B', 2: 'H', 4: 'I', 8: 'Q'}[size],
                     size, v)
        elif kind == 'bool':
            self.put('B', 1, v)
        elif kind == 'char':
            self.put('c', 1, v)
        elif kind in ('f32', 'f64'):
            self.put('f' if kind == 'f32' else 'd', 4 if kind == 'f32' else 8, v)
        elif kind == 'enum':
            self.put('i', 4, v)
        elif kind == 'bitmask':
            self.put('B' if type_[1] <= 8 else 'Q', 1 if type_[1] <= 8 else 8, v)
        elif kind == 'string':
            self.put('I', 4, len(v) + 1)
            self.out += v + b'\0'
        elif kind == 'struct':
            self.struct(type_, v, path)
            return
        elif kind == 'union':
            self.put('i', 4, v[0])
            self.value(type_[3][type_[1].get(v[0], type_[2])], v[1])
        else:
            self.collection(type_, v)
        if path is not None:
            self.ends[path] = len(self.out)

    def collection(self, type_, v):
        def write():
            if type_[0] == 'seq':
                self.put('I', 4, len(v))
            for element in v:
                self.value(type_[1], element)
        primitive = type_[1][0] in INTEGERS or type_[1][0] in ('bool', 'char', 'f32', 'f64')
        if self.xcdr2 and not primitive:
            self.delimited(write)
        else:
            write()

    def optional(self, name, type_, v):
        if self.xcdr2:
            self.put('B', 1, v is not None)
            if v is not None:
                self.value(type_, v)
            return
        inner = Encoder(False, self.order == '>')  # alignment starts anew behind the header
        if v is not None:
            inner.value(type_, v)
        self.out += bytes(-len(self.out) % 4)
        self.out += struct.pack(self.order + 'HH', OPTIONAL_IDS[name], len(inner.out)) + inner.out

    def struct(self, type_, v, path):
        def write():
            for name, member in type_[2]:
                if member[0] == 'opt':
                    self.optional(name, member[1], v[name])
                elif name in v:
                    self.value(member, v[name], None if path is None else f'{path}.{name}' if path else name)
        if not (self.xcdr2 and type_[1]):
            write()
            return
        self.delimited(write)
        if path is not None:  # a member can be found only if its whole delimited struct is there
            for leaf in self.ends:
                if not path or leaf.startswith(path + '.'):
                    self.ends[leaf] = len(self.out)


def encode(type_, sample, xcdr2, big):
    e = Encoder(xcdr2, big)
    e.value(type_, sample, '')
    identifier = ((9 if type_[1] else 7) if xcdr2 else 1) - big
    return bytes([0, identifier, 0, 0]) + bytes(e.out), {k: v + 4 for k, v in e.ends.items()}


# ---- the language -------------------------------------------------------------------------------

class Invalid(Exception):
    pass


TOKEN = re.compile(r"""\s*(?:
    (?P<param>%[0-9]{1,2}(?![0-9A-Za-z_])) |
    (?P<number>[+-]?(?:0[xX][0-9a-fA-F]+[lL]?|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[fF]|[lL])?)
      (?![0-9A-Za-z_.])) |
    (?P<quoted>['`](?:[^']|'')*'(?!')) |
    (?P<word>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*|\[[0-9]+\])*(?![.\[])(?!(?<=[A-Za-z0-9_])[A-Za-z0-9_])) |
    (?P<op><=|>=|<>|!=|==|=|<|>) |
    (?P<paren>[(),])
    )""", re.X | re.A)


def tokenise(text):
    tokens, at = [], 0
    while text[at:].strip(' \t\n\v\f\r'):
        m = TOKEN.match(text, at)
        if not m:
            raise Invalid
        kind = m.lastgroup
        word = m.group(kind)
        if kind == 'word' and word.upper() in KEYWORDS:
            kind, word = 'key', word.upper()
        if kind == 'number' and re.search(r'(?:\.|[eE][+-]?[0-9])', word) and word[-1] in 'lL' and 'x' not in word.lower():
            raise Invalid
        tokens.append((kind, word))
        at = m.end()
    return tokens


def split(tokens, word):
    """Parts at top level; the AND of a range belongs to its BETWEEN."""
    parts, depth, ranges = [[]], 0, 0
    for t in tokens:
        depth += (t == ('paren', '(')) - (t == ('paren', ')'))
        if depth < 0:
            raise Invalid
        if depth == 0 and t == ('key', 'BETWEEN'):
            ranges += 1
        if depth == 0 and t == ('key', 'AND') and ranges:
            ranges -= 1
        elif depth == 0 and t == ('key', word):
            parts.append([])
            continue
        parts[-1].append(t)
    if depth:
        raise Invalid
    return parts


def parse(tokens, binder):
    if not tokens:
        raise Invalid
    for word in ('OR', 'AND'):
        parts = split(tokens, word)
        if len(parts) > 1:
            return (word, [parse(p, binder) for p in parts])
    if tokens[0] == ('key', 'NOT'):
        return ('NOT', parse(tokens[1:], binder))
    if tokens[0] == ('paren', '('):
        if tokens[-1] != ('paren', ')'):
            raise Invalid
        return parse(tokens[1:-1], binder)
    return parse_leaf(tokens, binder)


OPERANDS = ('param', 'number', 'quoted', 'word')


def operand(token):
    if token[0] not in OPERANDS and token not in (('key', 'TRUE'), ('key', 'FALSE')):
        raise Invalid
    return token


def parse_leaf(tokens, binder):
    if len(tokens) == 3 and tokens[1][0] == 'op':
        return binder.compare(operand(tokens[0]), tokens[1][1], operand(tokens[2]))
    negated = len(tokens) > 1 and tokens[1] == ('key', 'NOT')
    rest = tokens[2:] if negated else tokens[1:]
    path = tokens[0]
    if path[0] != 'word' or not rest or rest[0][0] != 'key':
        raise Invalid
    if rest[0][1] == 'IS':
        if not find_any(binder.type, path[1]):
            raise Invalid
        if negated or rest[1:] not in ([('key', 'NULL')], [('key', 'NOT'), ('key', 'NULL')]):
            raise Invalid
        binder.used.add(path[1])
        return ('NULL', path[1], len(rest) == 3)
    kind = binder.class_of(path)
    if rest[0][1] == 'BETWEEN':
        if len(rest) != 4 or rest[2] != ('key', 'AND') or kind == 'bool':
            raise Invalid
        node = ('AND', [binder.compare(path, '>=', operand(rest[1])), binder.compare(path, '<=', operand(rest[3]))])
    elif rest[0][1] == 'IN':
        if len(rest) < 4 or rest[1] != ('paren', '(') or rest[-1] != ('paren', ')') or len(rest) % 2:
            raise Invalid
        if any(t != ('paren', ',') for t in rest[3:-1:2]) or any(t[0] == 'word' for t in rest[2:-1:2]):
            raise Invalid
        node = ('OR', [binder.compare(path, '=', operand(t)) for t in rest[2:-1:2]])
    elif rest[0][1] in ('LIKE', 'MATCH'):
        node = parse_pattern(path, kind, rest, binder)
    else:
        raise Invalid
    return ('NOT', node) if negated else node


def parse_pattern(path, kind, rest, binder):
    """LIKE and MATCH by way of regular expressions, which the C side has none of."""
    if kind != 'string' or len(rest) not in (2, 4) or operand(rest[1])[0] == 'word':
        raise Invalid
    binder.used.add(path[1])
    pattern, escape = binder.constant(kind, ('string', 0), rest[1]).decode('latin-1'), None
    if len(rest) == 4:
        if rest[0][1] != 'LIKE' or rest[2] != ('key', 'ESCAPE') or operand(rest[3])[0] == 'word':
            raise Invalid
        escape = binder.constant(kind, ('string', 0), rest[3]).decode('latin-1')
        if len(escape) != 1:
            raise Invalid
    text = like(pattern, escape) if rest[0][1] == 'LIKE' else match(pattern)
    return ('RE', path[1], re.compile(text.encode('latin-1'), re.S))


def like(pattern, escape):
    out, at = '', 0
    while at < len(pattern):
        c = pattern[at]
        at += 1
        if c == escape:
            if at == len(pattern) or pattern[at] not in ('%', '_', escape):
                raise Invalid
            out += re.escape(pattern[at])
            at += 1
        else:
            out += {'%': '.*', '_': '.'}.get(c, re.escape(c))
    return out


def match(pattern):
    out, at = '', 0
    while at < len(pattern):
        c = pattern[at]
        at += 1
        if c == '[':
            inverted = pattern[at:at + 1] in ('!', '^') and at < len(pattern)
            at += inverted
            chars, first = set(), True
            while first or pattern[at:at + 1] != ']':
                first = False
                if at >= len(pattern):
                    raise Invalid
                ends = []
                while True:
                    if pattern[at] == '\\':
                        at += 1
                        if at >= len(pattern):
                            raise Invalid
                    ends.append(ord(pattern[at]))
                    at += 1
                    if len(ends) == 2 or pattern[at:at + 1] != '-' or pattern[at + 1:at + 2] in ('', ']'):
                        break
                    at += 1
                if ends[-1] < ends[0]:
                    raise Invalid
                chars |= set(range(ends[0], ends[-1] + 1))
                if at >= len(pattern):
                    raise Invalid
            at += 1
            chars = (set(range(256)) - chars if inverted else chars) - {ord('/')}
            out += '[' + ''.join('\\x%02x' % v for v in sorted(chars)) + ']' if chars else '(?!)'
        elif c == '\\':
            if at == len(pattern):
                raise Invalid
            out += re.escape(pattern[at])
            at += 1
        else:
            out += {'*': '[^/]*', '?': '[^/]', ',': '|'}.get(c, re.escape(c))
    return out


def single(text):
    """The float nearest to a decimal text, exactly."""
    exact = Fraction(text)
    try:
        near = struct.unpack('<I', struct.pack('<f', abs(float(exact))))[0]
    except OverflowError:
        raise Invalid from None
    best = []
    for bits in (near - 1, near, near + 1):
        if 0 <= bits < 0x7f800000:
            v = struct.unpack('<f', struct.pack('<I', bits))[0]
            best.append((abs(Fraction(v) - abs(exact)), bits & 1, v))
    if abs(exact) >= Fraction(2)**128 - Fraction(2)**103:
        raise Invalid
    return math.copysign(min(best)[2], exact)


def number(word):
    """('integer', int) or ('float', exact value of the literal's double)."""
    if 'x' in word.lower():
        value = int(word.rstrip('lL'), 16)
        if abs(value) >= 1 << 64:
            raise Invalid
        return 'integer', value
    if word[-1] in 'fF':
        return 'float', Fraction(single(word[:-1]))
    if re.fullmatch(r'[+-]?[0-9]+[lL]?', word):
        return 'integer', int(word.rstrip('lL'))
    value = float(word)
    return 'float', Fraction(word) if math.isinf(value) else Fraction(value)


def unquote(word):
    return word[1:-1].replace("''", "'").encode('latin-1')


class Binder:
    """Types the operands of one filter. Operands become ('member', path) or ('value', v)."""

    def __init__(self, type_, parameters):
        self.type, self.parameters, self.used = type_, parameters, set()

    def class_of(self, token):
        found = find(self.type, token[1])
        if found is None:
            raise Invalid
        return class_of(found)

    def compare(self, left, op, right):
        op = {'==': '=', '!=': '<>'}.get(op, op)
        if left[0] != 'word':
            if right[0] != 'word':
                raise Invalid
            left, right = right, left
            op = {'<': '>', '>': '<', '<=': '>=', '>=': '<='}.get(op, op)
        kind = self.class_of(left)
        if kind == 'bool' and op not in ('=', '<>'):
            raise Invalid
        if right[0] == 'word':
            other = self.class_of(right)
            allowed = (kind == other and kind != 'bitmask') or \
                ('integer' in (kind, other) and {kind, other} - {'integer'} <= {'float', 'enum', 'bitmask'})
            if not allowed:
                raise Invalid
            value = ('member', right[1])
            self.used.add(right[1])
        else:
            value = ('value', self.constant(kind, find(self.type, left[1]), right))
        self.used.add(left[1])
        return ('CMP', ('member', left[1]), op, value)

    def constant(self, kind, type_, token):
        bare = None
        if token[0] == 'param':
            index = int(token[1][1:])
            if index >= len(self.parameters):
                raise Invalid
            text = self.parameters[index]
            try:
                tokens = tokenise(text)
            except Invalid:
                tokens = []
            token = tokens[0] if len(tokens) == 1 else ('none', '')
            if text[:1] in ("'", '`'):
                if token[0] != 'quoted' or token[1] != text:
                    raise Invalid
            else:
                bare = text.encode('latin-1')
        text = bare if bare is not None else unquote(token[1]) if token[0] == 'quoted' else None
        if kind in ('integer', 'float', 'bitmask') or (kind == 'enum' and token[0] == 'number'):
            if token[0] != 'number':
                raise Invalid
            what, value = number(token[1])
            if what == 'integer' or kind in ('integer', 'float'):
                return value
            if bare is None or kind == 'bitmask':
                raise Invalid
        if kind == 'bool':
            if token not in (('key', 'TRUE'), ('key', 'FALSE')):
                raise Invalid
            return token[1] == 'TRUE'
        if text is None or (kind == 'char' and len(text) != 1):
            raise Invalid
        if kind == 'enum':
            label = text.decode('latin-1')
            if label not in type_[1]:
                raise Invalid
            return type_[1][label]
        return text


# ---- evaluation ---------------------------------------------------------------------------------

def order(a, b):
    """-1, 0, 1, or None when a side is NaN. Exact: no float ever meets another number as a float."""
    if isinstance(a, bytes):
        return (a > b) - (a < b)
    if any(isinstance(v, float) and math.isnan(v) for v in (a, b)):
        return None
    a, b = (v if isinstance(v, float) and math.isinf(v) else Fraction(v) for v in (a, b))
    return (a > b) - (a < b)


def lookup(sample, path, type_):
    """The value, or None if it is absent. What an older sender did not know is zero."""
    for part in split_path(path):
        kind, below = type_[0], plain(part_of(type_, part))
        if kind == 'union':
            sample = sample[0] if part == '_d' else \
                sample[1] if type_[1].get(sample[0], type_[2]) == part else None
        elif kind in ('seq', 'array', 'string'):
            sample = len(sample) if part == 'length' else sample[part] if part < len(sample) else None
        else:
            sample = sample.get(part, zero(dict(type_[2])[part]))
        if sample is None:
            return None
        type_ = below
    return sample


def evaluate(node, sample, type_):
    if node[0] == 'OR':
        return any(evaluate(n, sample, type_) for n in node[1])
    if node[0] == 'AND':
        return all(evaluate(n, sample, type_) for n in node[1])
    if node[0] == 'NOT':
        return not evaluate(node[1], sample, type_)
    if node[0] == 'NULL':
        return (lookup(sample, node[1], type_) is None) != node[2]
    if node[0] == 'RE':
        text = lookup(sample, node[1], type_)
        return text is not None and node[2].fullmatch(text) is not None
    a, b = (lookup(sample, v[1], type_) if v[0] == 'member' else v[1] for v in (node[1], node[3]))
    if a is None or b is None:
        return False
    o = order(a, b)
    if o is None:
        return node[2] == '<>'
    return {'<': o < 0, '<=': o <= 0, '=': o == 0, '<>': o != 0, '>=': o >= 0, '>': o > 0}[node[2]]


# ---- random cases -------------------------------------------------------------------------------

def quote(rng, raw):
    text = raw.decode('latin-1').replace("'", "''")
    return rng.choice(["'"] * 9 + ['`']) + text + "'"


def random_number(rng):
    integer = rng.choice([0, 1, 2, 3, 5, 7, 9, 127, 128, 255, 256, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1,
                          2**63, 2**64 - 1, 2**64, 2**65 + 1, 10**22, 10**22 + 1, 10**40, 2**1024, 10**309])
    integer *= rng.choice([1, 1, -1])
    form = rng.random()
    if form < 0.6:
        return str(integer) + rng.choice(['', '', '', 'L'])
    if form < 0.7 and abs(integer) < 2**64:
        return hex(integer)
    value = rng.choice([v for v in FLOATS if math.isfinite(v)] + [3.5, -0.5, 2.0])
    return rng.choice([repr(value), repr(value), '1e400', '-1e400', '.5', '2.', '0.1F', '3F', '1e39', '1e-400',
                       repr(rng.uniform(-10, 10))])


def random_constant(rng, type_):
    """Text for a constant that usually fits the member; latin-1 text."""
    kind = class_of(type_)
    if rng.random() < 0.03:
        kind = rng.choice(['integer', 'bool', 'char', 'string', 'enum'])
        type_ = {'enum': MOOD, 'string': ('string', 0)}.get(kind, ('i32',))
    if kind in ('integer', 'float', 'bitmask'):
        if rng.random() < 0.5:
            v = random_value(rng, type_)
            if kind != 'float':
                return str(v)
            if math.isfinite(v):
                return repr(v)
        return random_number(rng)
    if kind == 'bool':
        return rng.choice(['TRUE', 'false', 'True', 'FALSE'])
    if kind == 'char':
        return quote(rng, random_value(rng, ('char',)))
    if kind == 'enum':
        return rng.choice(["'%s'" % rng.choice(list(type_[1])), str(rng.randint(-4, 8)), "'NONE'" if
                           rng.random() < 0.1 else "'CALM'"])
    return quote(rng, rng.choice(WORDS).encode())


def random_operand(rng, type_, parameters, path):
    if rng.random() < 0.15:
        same = [p for p, t in leaves(type_) if class_of(t) == class_of(find(type_, path))]
        anything = [p for p, _ in leaves(type_)]
        return rng.choice(same if rng.random() < 0.8 else anything)
    text = random_constant(rng, find(type_, path))
    if rng.random() < 0.35 and len(parameters) < 100:
        if rng.random() < 0.5 and text[0] in "'`":
            bare = text[1:-1].replace("''", "'")
            text = bare if bare[:1] not in ("'", '`') else text
        parameters.append(text)
        return '%%%d' % (len(parameters) - 1)
    return text


def random_pattern(rng, parameters):
    op = rng.choice(['LIKE', 'MATCH', 'like', 'match'])
    special = ['%', '_', '%', '_', '!'] if op.upper() == 'LIKE' else \
        ['*', '*', '?', '[', ']', '!', '-', ',', '/', '\\', '[RB]', '[!A-D]', '[a-z]', '^']
    text = ''.join(rng.choice(special) if rng.random() < 0.5 else
                   rng.choice(['R', 'E', 'D', 'RE', 'ED', 'A', 'B', 'a', 'z', ' ', '\xe9', "'"])
                   for _ in range(rng.choice([0, 1, 2, 3, 4, 6])))
    escape = rng.choice(["", "", " ESCAPE '!'"]) if op == 'LIKE' else ''
    text = quote(rng, text.encode('latin-1'))
    if rng.random() < 0.3 and len(parameters) < 100:
        parameters.append(text)
        text = '%%%d' % (len(parameters) - 1)
    return f'{op} {text}{escape}'


def random_leaf(rng, type_, parameters):
    path = rng.choice([p for p, _ in leaves(type_)])
    space = rng.choice(['', ' ', '  '])
    op = rng.choice(['=', '==', '<>', '!=', '<', '<=', '>', '>='])
    if find(type_, path) and class_of(find(type_, path)) == 'bool' and rng.random() < 0.9:
        op = rng.choice(['=', '<>'])
    kind = rng.random()
    if kind < 0.08:
        path = rng.choice(PATHS[id(type_)])
        return f"{path} {rng.choice(['IS', 'is'])} {rng.choice(['NULL', 'NOT NULL', 'not null'])}"
    negation = rng.choice(['', 'NOT ', 'not '])
    if kind < 0.25:
        items = [random_operand(rng, type_, parameters, path) for _ in range(rng.choice([1, 2, 3, 5, 12]))]
        if rng.random() < 0.9:
            items = [i for i in items if not find(type_, i)] or ["'A'" if class_of(find(type_, path)) in ('string', 'char') else '5']
        return f"{path} {negation}{rng.choice(['IN', 'in'])} ({','.join(items)})"
    if kind < 0.45:
        if rng.random() < 0.95:
            path = rng.choice([p for p, t in leaves(type_) if t[0] == 'string'])
        return f'{path} {negation}{random_pattern(rng, parameters)}'
    if rng.random() < 0.25:
        a, b = (random_operand(rng, type_, parameters, path) for _ in range(2))
        return f"{path} {rng.choice(['', 'NOT ', 'not '])}{rng.choice(['BETWEEN', 'between'])} {a} {rng.choice(['AND', 'and'])} {b}"
    other = random_operand(rng, type_, parameters, path)
    if rng.random() < 0.2:
        path, other = other, path
    return f'{path}{space}{op}{space}{other}'


def random_expression(rng, type_, parameters, depth=0):
    kind = rng.random()
    if depth > 3 or kind < 0.35:
        return random_leaf(rng, type_, parameters)
    if kind < 0.5:
        return wrap(rng, random_expression(rng, type_, parameters, depth + 1))
    left, right = (random_expression(rng, type_, parameters, depth + 1) for _ in range(2))
    return f"{left} {rng.choice(['AND', 'OR', 'and', 'Or'])} {right}"


def wrap(rng, text):
    return rng.choice(['NOT ' + text, 'NOT (' + text + ')', '(' + text + ')', 'not NOT(' + text + ' )'])


def damage(rng, text):
    at = rng.randrange(len(text) + 1)
    kind = rng.randrange(4)
    if kind == 0:
        return text[:at] + text[at + rng.randint(1, 4):]
    if kind == 1:
        return text[:at] + rng.choice(list("()'%=<> .&x9") + [' AND ', ' OR ', ' NOT ', ' LIKE ', ' IN ', '[0]']) + text[at:]
    if kind == 2:
        return text[:at]
    other = rng.randrange(len(text) + 1)
    return text[:at] + text[min(at, other):max(at, other)] + text[at:]


def shorten(rng, sample, type_):
    """An older writer's sample: appendable structs end early."""
    if type_[1] and rng.random() < 0.4:
        keep = rng.randint(1, len(type_[2]))
        sample = {name: sample[name] for name, _ in type_[2][:keep]}
    return sample


def random_payload(rng, type_, tree, used):
    """A payload and the verdict expected for it."""
    xcdr2, big = rng.random() < 0.5, rng.random() < 0.4
    sample = random_value(rng, type_)
    if xcdr2:
        for name, member in type_[2]:
            if member[0] == 'struct':
                sample[name] = shorten(rng, sample[name], member)
    sample = shorten(rng, sample, type_)
    payload, ends = encode(type_, sample, xcdr2, big)
    expected = '1' if evaluate(tree, sample, type_) else '0'
    whole = len(sample) == len(type_[2])
    cuttable = type_ is not RICH and not any(c in path for path in used for c in ('[', 'length'))
    if rng.random() < 0.2 and whole and cuttable and (xcdr2 or not type_[1]) and used <= set(p for p, _ in leaves(type_)):
        payload = payload[:rng.randrange(len(payload) + 1)]
        needed = max((end for path, end in ends.items() if path in used), default=4)
        for path in used:  # absent in an older nested struct: its delimited struct must still be there
            if path not in ends:
                inside = [e for p, e in ends.items() if p.startswith(path.split('.')[0] + '.')]
                needed = max([needed] + inside)
        return payload, expected if len(payload) >= needed else 'E'
    if rng.random() < 0.5:
        pad = -len(payload) % 4
        payload = payload[:3] + bytes([pad]) + payload[4:] + bytes(pad)
    return payload, expected


def make_case(rng):
    index = rng.randrange(len(TYPES))
    parameters = []
    expression = random_expression(rng, TYPES[index], parameters)
    if rng.random() < 0.2:
        expression = damage(rng, expression)
    if parameters and rng.random() < 0.03:
        parameters.pop()
    if rng.random() < 0.1:
        parameters.append('surplus')
    return index, expression, parameters


def tree_of(index, expression, parameters):
    binder = Binder(TYPES[index], parameters)
    try:
        return parse(tokenise(expression), binder), binder.used
    except Invalid:
        return None, set()


def hexed(text):
    return text.encode('latin-1').hex() or '-'


def main():
    driver, triples = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20000
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    cases, lines, made = [], [], 0
    while made < triples:
        index, expression, parameters = make_case(rng)
        if re.search(r'[eE][+-]?[0-9]{4}', expression + ' '.join(parameters)) or '\0' in expression:
            continue  # exact arithmetic on 10^1000 and more is slow here
        tree, used = tree_of(index, expression, parameters)
        payloads = [random_payload(rng, TYPES[index], tree, used) for _ in range(6)] if tree else []
        made += max(1, len(payloads))
        cases.append((index, expression, parameters, payloads if tree else None))
        lines.append(' '.join([str(index), hexed(expression),
                               ','.join(hexed(p) for p in parameters) or '.'] +
                              [p.hex() or '-' for p, _ in payloads]))
    result = subprocess.run([driver], input='\n'.join(lines) + '\n', capture_output=True, text=True, check=False)
    if result.returncode:
        print(result.stderr, f'driver ended with {result.returncode}')
        return 1
    routes = [int(n) for n in result.stderr.split()]
    print('%d conditions announced, %d composed, %d indexed' % tuple(routes))
    if min(routes) * 20 < len(cases):
        print('some route is hardly taken: the cases prove little')
        return 1
    return judge(cases, result.stdout.splitlines())


def judge(cases, answers):
    wrong, counts = 0, {'1': 0, '0': 0, 'E': 0, 'invalid': 0}
    if len(answers) != len(cases):
        print(f'{len(answers)} answers to {len(cases)} cases')
        return 1
    for (index, expression, parameters, payloads), answer in zip(cases, answers):
        expected = 'invalid' if payloads is None else ''.join(v for _, v in payloads)
        if payloads is None:
            counts['invalid'] += 1
            agrees = answer.startswith('invalid ') and int(answer.split()[1]) <= len(expression)
        else:
            for _, verdict in payloads:
                counts[verdict] += 1
            agrees = answer == expected
        if not agrees:
            wrong += 1
            if wrong <= 10:
                print(f'type {index}: {expression!r} {parameters!r}\n  expected {expected}, got {answer}')
                for payload, verdict in payloads or []:
                    print('   ', verdict, payload.hex())
    print(f'{sum(counts.values())} cases: {counts}, {wrong} wrong')
    healthy = all(n * 50 > len(cases) for n in counts.values())
    if not healthy:
        print('some outcome hardly occurs: the cases prove little')
    return 1 if wrong or not healthy else 0


if __name__ == '__main__':
    sys.exit(main())
