// A robot that says one sentence at each `next`. The argument of `next` is the robot's next command: it is the result
// of the `yield` at which the robot waits.

import Coroutine

func robot(named name: String) -> TwoWayGenerator<String?, String, String> {
  TwoWayGenerator { yield in
    var command: String?
    repeat {
      try yield("Hello \(name), how are you?")
      try yield("Today is Friday")
      try yield("So yesterday was Thursday")
      command = try yield("Over")
    } while command == "again"
    return "== talk done =="
  }
}

let talk = robot(named: "Wukaka")

func show(_ step: TwoWayGenerator<String?, String, String>.Step) {
  switch step {
  case .yielded(let sentence): print(sentence)
  case .returned(let last): print(last)
  }
}

for _ in 1...4 { show(try talk.next()) }
show(try talk.next("again"))  // from the beginning once more
for _ in 1...3 { show(try talk.next()) }
show(try talk.next())  // no command: it ends
show(try talk.next())  // and it stays ended
