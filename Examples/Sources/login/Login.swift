// Log in, query the user, download the user's picture, change it: each step needs the one before. The steps are
// callback APIs, as networks have them. The flow reads as if they were not: errors are thrown, and the main queue is
// never blocked. A `finally` behind the flow has what must be done in the end, however the flow ends.

import Coroutine
import Dispatch

struct Account: Sendable { let user: Int, token: String }
struct User: Sendable { let name: String, pictureURL: String }
struct Picture: Sendable { let name: String }

struct NetworkError: Error { let status: Int }

/// Stands for the network: calls back on another thread.
enum Server {
  typealias Completion<Value> = @Sendable (Value?, (any Error)?) -> Void

  static func logIn(_ name: String, password: String, completion: @escaping Completion<Account>) {
    DispatchQueue.global().async {
      if password == "12345" {
        completion(Account(user: 80_022, token: "ffccdd"), nil)
      } else {
        completion(nil, NetworkError(status: 401))
      }
    }
  }

  static func query(_ user: Int, token: String, completion: @escaping Completion<User>) {
    DispatchQueue.global().async { completion(User(name: "Jim Green", pictureURL: "/pictures/\(user)"), nil) }
  }

  static func download(_ url: String, completion: @escaping Completion<Picture>) {
    DispatchQueue.global().async { completion(Picture(name: url), nil) }
  }

  static func makeRound(_ picture: Picture, completion: @escaping Completion<Picture>) {
    DispatchQueue.global().async { completion(Picture(name: "round \(picture.name)"), nil) }
  }
}

@main @MainActor struct Login {
  static func main() async throws {
    for password in ["12345", "wrong"] {
      let (ended, end) = Promise.makePromise(of: Void.self)
      let login = Coroutine {
        print("progress is shown")

        let account = try awaitCallback { done in Server.logIn("jim", password: password, completion: done) }
        let user = try awaitCallback { done in Server.query(account.user, token: account.token, completion: done) }
        let picture = try awaitCallback { done in Server.download(user.pictureURL, completion: done) }
        let round = try awaitCallback { done in Server.makeRound(picture, completion: done) }

        dispatchPrecondition(condition: .onQueue(.main))
        print("welcome \(user.name), \(round.name)")
      }.finally {
        print("progress is hidden")
        end.fulfill()
      }
      try await ended.get()  // `login.get()` waits for the flow, not for its `finally`
      do {
        try await login.get()
      } catch let error as NetworkError {
        print("could not log in: \(error.status)")
      }
    }
  }
}
