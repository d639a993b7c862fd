// Pull parsing: `XMLParser` pushes what it finds into a delegate. Here the delegate yields it, out of the middle of
// the parser, to a loop that takes one item after another. The loop stops when it has enough, and the rest is never
// read.

import Coroutine
import Foundation

#if canImport(FoundationXML)
  import FoundationXML
#endif

struct Item: Equatable { var title = "", link = "" }

/// The items of a feed, one by one.
func items(of parser: @autoclosure @escaping () -> XMLParser) -> Generator<Item> {
  Generator { yield in
    let parser = parser()
    let delegate = ItemFinder { item in
      // A delegate can't throw. When no more items are wanted, the parser is told to stop, and returns.
      do { try yield(item) } catch { parser.abortParsing() }
    }
    parser.delegate = delegate
    // Its errors are not asked for: until it returns Foundation keeps them by thread (docs/migration/cokit.md).
    _ = parser.parse()
  }
}

final class ItemFinder: NSObject, XMLParserDelegate {
  private let found: (Item) -> Void
  private var item = Item()
  private var text = ""

  init(found: @escaping (Item) -> Void) { self.found = found }

  func parser(
    _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
    attributes: [String: String]
  ) {
    text = ""
  }

  func parser(_ parser: XMLParser, foundCharacters string: String) { text += string }

  func parser(_ parser: XMLParser, didEndElement name: String, namespaceURI: String?, qualifiedName: String?) {
    switch name {
    case "title": item.title = text
    case "link": item.link = text
    case "item":
      found(item)
      item = Item()
    default: break
    }
  }
}

/// The most memory that the process has ever had, in MiB.
func peakMemory() throws -> Int {
  let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
  let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }!
  return Int(line.filter(\.isNumber))! / 1_024
}

let file = FileManager.default.temporaryDirectory.appendingPathComponent("feed-\(getpid()).xml")
let count = 200_000
try Data("<feed>\n".utf8).write(to: file)
defer { try? FileManager.default.removeItem(at: file) }
let writer = try FileHandle(forWritingTo: file)
try writer.seekToEnd()
for number in 1...count {
  let link = "https://example.org/articles/\(number)"
  writer.write(Data("<item><title>Title \(number)</title><link>\(link)</link></item>\n".utf8))
}
writer.write(Data("</feed>\n".utf8))
let size = Int(try writer.offset()) / 1_048_576
try writer.close()

let before = try peakMemory()

var titles: [String] = []
for item in items(of: XMLParser(stream: InputStream(url: file)!)) {
  titles.append(item.title)
  if titles.count == 3 { break }
}
print(titles)
let afterSome = try peakMemory()

let all = Array(items(of: XMLParser(data: try! Data(contentsOf: file))))
print(all.count, all.last!)
let afterAll = try peakMemory()

print("Stopping early took less than a tenth of the memory: \((afterSome - before) * 10 < afterAll - before)")
FileHandle.standardError.write(
  Data("\(size) MiB of XML: \(afterSome - before) MiB for three items, \(afterAll - before) MiB for all\n".utf8))
