# The same in Ruby, by fiddle, which comes with it: nothing is compiled. A slice by value is two words, and so two
# arguments, on x86_64 and aarch64, as long as registers take both.
require "fiddle"

LIBRARY = Fiddle.dlopen(ENV.fetch("TERRACE_LIBRARY", "libterrace.so"))
POINTER, SIZE, INT, VOID = Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, Fiddle::TYPE_INT, Fiddle::TYPE_VOID
SLICE = [POINTER, SIZE].freeze
WORD = Fiddle::SIZEOF_VOIDP

def function(name, *arguments, answer: INT)
  Fiddle::Function.new(LIBRARY[name], arguments.flatten, answer)
end

MESSAGE = function("terrace_error_message", POINTER, answer: POINTER)
OPEN = function("terrace_open", [POINTER] * 4)
CLOSE = function("terrace_close", [POINTER] * 2)
TREE = function("terrace_tree", [POINTER] * 5)
PUT = function("terrace_put", POINTER, SLICE, SLICE, POINTER)
GET = function("terrace_get", POINTER, SLICE, [POINTER] * 2)
RANGE = function("terrace_range", [POINTER] * 3, INT, [POINTER] * 2)
NEXT = function("terrace_cursor_next", [POINTER] * 4)
CURSOR_CLOSE = function("terrace_cursor_close", POINTER, answer: VOID)
FREE = function("terrace_bytes_free", POINTER, answer: VOID)

# Room for so many words: a pointer is one, a slice two.
def room(words)
  place = Fiddle::Pointer.malloc(words * WORD, Fiddle::RUBY_FREE)
  place[0, words * WORD] = "\0" * (words * WORD)
  place
end

# Calls with a place for the error, and raises it.
def call(function, *arguments)
  error = room(1)
  raise MESSAGE.call(error.ptr).to_s unless function.call(*arguments, error).zero?
end

# The bytes that a slice names, nil if there are none.
def bytes(place)
  data, len = place[0, 2 * WORD].unpack("JJ")
  data.zero? ? nil : Fiddle::Pointer.new(data)[0, len]
end

def put(map, key, value)
  call(PUT, map, key, key.bytesize, value, value.bytesize)
end

def get(map, key)
  value = room(2)
  call(GET, map, key, key.bytesize, value)
  bytes(value)
ensure
  FREE.call(value)
end

db, users, cursor = room(1), room(1), room(1)
call(OPEN, ARGV.fetch(0), nil, db)
call(TREE, db.ptr, "users", nil, users)
put(users.ptr, "alice", "Berlin")
put(users.ptr, "bob", "Rome")
puts "alice lives in #{get(users.ptr, 'alice')}"
call(RANGE, users.ptr, nil, nil, 0, cursor)
key, value = room(2), room(2)
loop do
  call(NEXT, cursor.ptr, key, value)
  break if bytes(key).nil?
  puts "#{bytes(key)}: #{bytes(value)}"
end
CURSOR_CLOSE.call(cursor.ptr)
call(CLOSE, db.ptr)
