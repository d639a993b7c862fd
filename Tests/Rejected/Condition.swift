// A condition passes its mutex's value to other owners during the wait.

import Coroutine

final class Account {
  var balance = 0
}

func keepsAcrossAWait(_ mutex: CoroutineMutex<Account>, _ condition: Condition<Account>) throws {
  var kept: Account?
  try mutex.withLock { account in
    kept = account
    // expected-error@+2 {{sending 'account' risks causing data races}} expected-note@+2 {{task-isolated 'account' is passed}}
    // expected-error@+1 {{cannot be task-isolated at end of function}} expected-note@+1 {{task-isolated 'account' risks}}
    try condition.wait(&account)
    account = Account()
  }
  kept?.balance += 1
}

func passesAnother(_ own: Account, _ condition: Condition<Account>) throws {
  var other = own
  // expected-error@+1 {{sending 'other' risks causing data races}} expected-note@+1 {{task-isolated 'other' is passed}}
  try condition.wait(&other)
}

func passesAnotherInATask(_ own: Account, _ condition: Condition<Account>) async throws {
  var other = own
  // expected-error@+1 {{sending 'other' risks causing data races}} expected-note@+1 {{task-isolated 'other' is passed}}
  try await condition.wait(&other)
}

func keepsBeyondThePredicate(_ mutex: CoroutineMutex<Account>, _ condition: Condition<Account>) throws {
  var kept: Account?
  try mutex.withLock { account in
    try condition.wait(&account) {
      // expected-error@+2 {{cannot be task-isolated at end of function}} expected-note@+2 {{task-isolated '$0' risks}}
      kept = $0
      return true
    }
  }
  kept?.balance += 1
}

func usesWhatItWasGiven(_ mutex: CoroutineMutex<Account>, _ condition: Condition<Account>) throws {
  try mutex.withLock { account in
    try condition.wait(&account) { $0.balance > 0 }
    account.balance += 1
  }
}
