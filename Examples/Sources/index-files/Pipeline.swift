import Coroutine

/// What was counted in a tree.
struct Summary {
  let tally: Tally
  let obstacles: FileWalk.Obstacles
}

/// Counts what is in the files below `root`. Each box is a coroutine, and all of them share the pool's few threads:
///
///     walker --files--> worker 1, worker 2, ... --results--> collector
///
/// Both channels are rendezvous: a coroutine that is ahead waits for the others. So there is only one file per worker
/// in the pipeline at a time, however large the tree is. A wait takes no thread of the pool's, nor does one for a file.
func summarize(_ root: String, workerCount: Int) throws -> Summary {
  let files = Channel<String>(name: "files")
  let results = Channel<Tally>(name: "results")
  // Counting first takes one more walk. With it the progress has a known end.
  let fileCount = FileWalk(root: root).files.reduce(0) { count, _ in count + 1 }

  let walker = Coroutine(name: "walker") {
    defer { files.close() }
    var found = 0
    let walk = FileWalk(
      root: root,
      onFile: {
        if found == fileCount / 2 { try showBacktraces(of: workerCount + 2) }
        found += 1
      })
    let walkedFiles = walk.files
    for file in walkedFiles { try files.send(file) }
    // A `for` loop can't throw what the generator's body threw, such as an error for lack of memory.
    if let failure = walkedFiles.failure { throw failure }
    return walk.obstacles
  }

  let workers = (1...workerCount).map { number in
    Coroutine(name: "worker \(number)") {
      for file in files.received { try results.send(FileReader.tally(file)) }
    }
  }

  let collector = Coroutine(name: "collector") {
    var total = Tally()
    var progress = Progress(of: fileCount)
    for result in results.received {
      total.add(result)
      progress.update(done: total.files + total.unreadableFiles)
    }
    return total
  }

  // The main thread runs no coroutine and can't suspend: it blocks.
  let obstacles = try walker.getBlocking()
  for worker in workers { try worker.getBlocking() }
  results.close()
  return Summary(tally: try collector.getBlocking(), obstacles: obstacles)
}
