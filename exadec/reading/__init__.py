"""The door through which every file is read. What is behind it has been checked.

Files come from strangers, and files get damaged. `content` reads text and JSON, `lines` reads lines of any length up to
a limit, compressed or not, `arrays` maps arrays, `folder` reads the folders that exadec itself writes, and
`archive` the files that hold such a folder.
"""
