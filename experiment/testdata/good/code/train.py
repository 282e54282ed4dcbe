print("a trial")
